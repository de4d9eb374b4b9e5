// SPDX-License-Identifier: BSD-3-Clause
// Adds squares by a task collection without MPI. The collection's network has a single rank, so no
// message travels. Programs over MPI include manyhands/tasks.hpp, which has a Network over MPI.
#include <cstdio>
#include <manyhands/tasks/collection.hpp>
#include <memory>

namespace tasks = mh::tasks;

namespace {

class OneRank final : public tasks::Network {
 public:
  [[nodiscard]] std::uint32_t rank() const override { return 0; }
  [[nodiscard]] std::uint32_t ranks() const override { return 1; }
  [[nodiscard]] std::span<const std::uint32_t> nodes() const override { return {&first_, 1}; }
  [[nodiscard]] bool threads() const override { return false; }
  mh::Result<std::byte*> share(std::size_t bytes) override {
    blocks_.emplace_back(bytes / sizeof(Line) + 1);
    return reinterpret_cast<std::byte*>(blocks_.back().data());
  }
  mh::Result<Ticket> send(std::uint32_t, tasks::Tag, std::span<const std::byte>, bool) override {
    return mh::Status{mh::Code::misuse};  // a single rank has no peer
  }
  mh::Result<Ticket> barrier() override { return Ticket{0}; }
  mh::Result<bool> done(Ticket) override { return true; }
  mh::Result<std::optional<Envelope>> probe(std::uint32_t, tasks::Tag) override {
    return std::optional<Envelope>();
  }
  mh::Status take(const Envelope&, std::span<std::byte>) override {
    return mh::Status{mh::Code::misuse};
  }
  mh::Status sum(std::span<double>) override { return {}; }
  mh::Status maximum(std::span<double>) override { return {}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::uint32_t first_ = 0;
  std::vector<std::vector<Line>> blocks_;
};

void add_square(tasks::Context& context, const long& number) noexcept {
  context.local<long>() += number * number;
}

}  // namespace

int main() {
  long sum = 0;
  auto collection = tasks::Collection::create(std::make_unique<OneRank>(), {.local = &sum});
  if (!collection) return 1;
  const auto square = collection->define<long>(add_square);
  if (!square) return 1;
  for (long i = 1; i <= 1000; ++i) {
    if (!collection->add(*square, {i})) return 1;
  }
  if (!collection->process()) return 1;
  std::printf("the sum is %ld\n", sum);
  return 0;
}
