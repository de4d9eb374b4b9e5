// SPDX-License-Identifier: BSD-3-Clause
// Operations are carried out range by range and compared with plain loops: by loads and stores or
// by the kernel, by one thread or with helpers, and by several origins at once.
#include "rma/window.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "layout/layout.hpp"
#include "support/child.hpp"
#include "support/ranks.hpp"
#include "support/sanitizer.hpp"
#include "support/shared.hpp"

namespace mh::rma {
namespace {

using layout::LayoutPtr;

memory::View view_of(const void* address, pid_t pid = ::getpid()) {
  return {reinterpret_cast<std::uint64_t>(address), pid, 0};
}

RmaBuffer end_at(void* address) {
  RmaBuffer buffer;
  buffer.base = view_of(address);
  buffer.mapped = static_cast<std::byte*>(address);
  return buffer;
}
RmaBuffer end_at(void* address, const LayoutPtr& layout, std::uint64_t count) {
  RmaBuffer buffer = end_at(address);
  buffer.layout = layout.get();
  buffer.count = count;
  return buffer;
}

// A layout of `numbers` numbers with a gap after each.
LayoutPtr every_second(std::int64_t numbers) {
  return *layout::vector(numbers, 1, 2, **layout::named(8, 8));
}

class WindowTest : public ::testing::Test {
 protected:
  WindowTest() : ranks_(3), context_(ranks_.node(0), reach_) {}

  Operation sum_of(std::uint64_t numbers) const {
    return {.op = Op::sum,
            .type = Type::int64,
            .atomic = true,
            .has_origin = true,
            .element = 8,
            .bytes = numbers * 8};
  }

  test::Ranks ranks_;
  memory::Reach reach_;
  RmaContext context_;
  StripeLocks locks_;
};

std::vector<std::int64_t> counting(std::size_t count, std::int64_t from) {
  std::vector<std::int64_t> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = from + static_cast<std::int64_t>(i);
  return made;
}

TEST_F(WindowTest, any_cut_of_an_accumulate_gives_the_sum_and_fetches_what_was_before) {
  constexpr std::size_t kNumbers = 40'000;  // several stripes
  std::mt19937_64 random(7);
  for (int way = 0; way < 8; ++way) {
    const bool origin_gaps = (way & 1) != 0;
    const bool target_gaps = (way & 2) != 0;
    const bool result_gaps = (way & 4) != 0;
    std::vector<std::int64_t> origin = counting(2 * kNumbers, 1);
    std::vector<std::int64_t> target = counting(2 * kNumbers, 1000);
    std::vector<std::int64_t> result(2 * kNumbers, -1);
    const std::vector<std::int64_t> before = target;
    const LayoutPtr gaps = every_second(kNumbers);
    BoundOperation operation;
    operation.what = sum_of(kNumbers);
    operation.what.has_result = true;
    operation.origin = origin_gaps ? end_at(origin.data(), gaps, 1) : end_at(origin.data());
    operation.target = target_gaps ? end_at(target.data(), gaps, 1) : end_at(target.data());
    operation.result = result_gaps ? end_at(result.data(), gaps, 1) : end_at(result.data());
    operation.locks = &locks_;
    for (std::uint64_t begin = 0; begin < operation.what.bytes;) {
      const std::uint64_t end =
          std::min<std::uint64_t>(begin + 8 * (1 + random() % 20'000), operation.what.bytes);
      ASSERT_TRUE(context_.executor().run(operation, {begin, end}).ok());
      begin = end;
    }
    for (std::size_t i = 0; i < kNumbers; ++i) {
      const std::size_t from = origin_gaps ? 2 * i : i;
      const std::size_t to = target_gaps ? 2 * i : i;
      ASSERT_EQ(target[to], before[to] + origin[from]) << way << " at " << i;
      ASSERT_EQ(result[result_gaps ? 2 * i : i], before[to]) << way << " at " << i;
      ASSERT_TRUE(!target_gaps || target[to + 1] == before[to + 1]) << "a gap was written";
      ASSERT_TRUE(!result_gaps || result[2 * i + 1] == -1) << "a gap was written";
    }
  }
}

TEST_F(WindowTest, put_and_get_move_between_any_two_layouts) {
  constexpr std::size_t kNumbers = 20'000;
  const LayoutPtr gaps = every_second(kNumbers);
  for (int way = 0; way < 8; ++way) {
    std::vector<std::int64_t> own = counting(2 * kNumbers, 1);
    std::vector<std::int64_t> there(2 * kNumbers, -1);
    const bool is_put = (way & 4) == 0;
    const RmaBuffer a = (way & 1) != 0 ? end_at(own.data(), gaps, 1) : end_at(own.data());
    const RmaBuffer b = (way & 2) != 0 ? end_at(there.data(), gaps, 1) : end_at(there.data());
    BoundOperation operation;
    operation.what = {.op = is_put ? Op::replace : Op::no_op,
                      .has_origin = is_put,
                      .has_result = !is_put,
                      .bytes = kNumbers * 8};
    operation.origin = is_put ? a : RmaBuffer{};
    operation.result = is_put ? RmaBuffer{} : b;
    operation.target = is_put ? b : a;
    ASSERT_TRUE(context_.executor().run(operation, {0, operation.what.bytes}).ok());
    for (std::size_t i = 0; i < kNumbers; ++i) {
      ASSERT_EQ(there[(way & 2) != 0 ? 2 * i : i], own[(way & 1) != 0 ? 2 * i : i]) << way;
      ASSERT_TRUE((way & 2) == 0 || there[2 * i + 1] == -1) << "a gap was written";
    }
  }
}

// The target is a child process whose private memory the test does not map, so only the kernel can
// reach it.
TEST_F(WindowTest, what_only_the_kernel_reaches_is_updated_too) {
  constexpr std::size_t kNumbers = 20'000;
  std::vector<std::int64_t> target = counting(2 * kNumbers, 1000);  // the child has its own copy
  test::SharedMemory shared(4096);
  auto& step = *new (shared.span().data()) std::atomic<int>(0);
  test::Child child([&] {
    step = 1;
    while (step != 2) ::sched_yield();
    const LayoutPtr gaps = every_second(kNumbers);
    for (std::size_t i = 0; i < kNumbers; ++i) {
      const auto index = static_cast<std::int64_t>(i);
      const std::int64_t added = i < kNumbers / 2 ? 2 * (index + 1) : index + 1;
      if (target[2 * i] != 1000 + 2 * index + added) return 1;
      if (target[2 * i + 1] != 1000 + 2 * index + 1) return 2;
    }
    return 0;
  });
  while (step != 1) ::sched_yield();
  std::vector<std::int64_t> origin = counting(kNumbers, 1);
  std::vector<std::int64_t> result(kNumbers, -1);
  const LayoutPtr gaps = every_second(kNumbers);
  BoundOperation operation;
  operation.what = sum_of(kNumbers);
  operation.what.has_result = true;
  operation.origin = end_at(origin.data());
  operation.result = end_at(result.data());
  operation.target = end_at(target.data(), gaps, 1);
  operation.target.base.pid = child.pid();
  operation.target.mapped = nullptr;
  operation.locks = &locks_;
  const Status reached = context_.executor().run(operation, {0, operation.what.bytes});
  if (reached.code == Code::refused) GTEST_SKIP() << "ptrace of children is not permitted";
  ASSERT_TRUE(reached.ok());
  EXPECT_EQ(result[3], 1006);
  ASSERT_TRUE(context_.executor().run(operation, {0, operation.what.bytes / 2}).ok());
  EXPECT_EQ(result[3], 1006 + 4);
  step = 2;
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(WindowTest, compare_and_swap_writes_only_what_compares_equal) {
  std::int64_t target = 5;
  std::int64_t origin = 9;
  std::int64_t result = 0;
  BoundOperation operation;
  operation.what = {.op = Op::replace, .element = 8, .bytes = 8};
  operation.origin = end_at(&origin);
  operation.target = end_at(&target);
  operation.result = end_at(&result);
  operation.locks = &locks_;
  std::int64_t compare = 4;
  ASSERT_TRUE(context_.executor().compare_and_swap(operation, &compare).ok());
  EXPECT_EQ(result, 5);
  EXPECT_EQ(target, 5);
  compare = 5;
  ASSERT_TRUE(context_.executor().compare_and_swap(operation, &compare).ok());
  EXPECT_EQ(result, 5);
  EXPECT_EQ(target, 9);
}

TEST(WindowChunks, cover_the_stream_once_and_end_at_stripes) {
  for (const std::uint64_t element : {1U, 8U, 12U, 16U}) {
    for (const std::uint64_t address : {0U, 8U, 65528U, 65536U + 48U}) {
      Operation what{.atomic = true, .element = static_cast<std::uint32_t>(element)};
      what.bytes = element * 30'000;
      const std::uint64_t lead = lead_of(what, address, true);
      const std::uint64_t chunk = kStripe / element * element;
      std::uint64_t done = 0;
      for (std::uint64_t offset = 0; offset < lead + what.bytes; offset += chunk) {
        const std::uint64_t bytes = std::min(chunk, lead + what.bytes - offset);
        const layout::StreamRange range = range_of(what, lead, {offset, bytes});
        ASSERT_EQ(range.begin, done);
        ASSERT_EQ(range.begin % element, 0U);
        done = range.end;
        const bool last = done == what.bytes;
        if (kStripe % element == 0 && !last) {
          EXPECT_EQ((address - address % element + done) % kStripe, 0U);
        }
      }
      EXPECT_EQ(done, what.bytes);
    }
  }
}

// A window whose ranks are threads of this process. Each rank has its own Window object on the same
// memory.
class Ring {
 public:
  Ring(std::uint32_t ranks, std::vector<std::vector<std::int64_t>>& memory)
      : shared_(Control::bytes_needed(ranks)) {
    const Control control(shared_.span().data(), ranks);
    std::vector<Exposed> exposed;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      auto* base = reinterpret_cast<std::byte*>(memory[rank].data());
      exposed.push_back({.base = reinterpret_cast<std::uint64_t>(base),
                         .bytes = memory[rank].size() * 8,
                         .unit = 8,
                         .node_rank = rank,
                         .pid = ::getpid(),
                         .mapped = base});
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      control.construct(rank);
      windows_.push_back(std::make_unique<Window>(control, rank, exposed));
    }
  }
  Window& operator[](std::uint32_t rank) { return *windows_[rank]; }

 private:
  test::SharedMemory shared_;
  std::vector<std::unique_ptr<Window>> windows_;
};

class SharedWindowTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kRanks = 3;
  static constexpr std::size_t kNumbers = test::kSanitized ? 30'000 : 200'000;

  SharedWindowTest()
      : ranks_(kRanks),
        memory_(kRanks, std::vector<std::int64_t>(kNumbers, 0)),
        ring_(kRanks, memory_) {}

  // Makes an operation of rank `me` that adds `origin` to the first numbers of rank `target`, or to
  // the numbers of one element of `layout` there.
  BoundOperation summing(std::uint32_t me, std::uint32_t target, std::vector<std::int64_t>& origin,
                         const layout::Layout* layout = nullptr) {
    BoundOperation operation;
    operation.what = {.op = Op::sum,
                      .type = Type::int64,
                      .atomic = true,
                      .has_origin = true,
                      .element = 8,
                      .target = target,
                      .bytes = origin.size() * 8};
    operation.origin = end_at(origin.data());
    operation.target = *ring_[me].target_buffer(target, ring_[me].exposed(target).base, layout, 1,
                                                operation.what.bytes, reach_);
    operation.locks = &ring_[me].control().part(target).stripes;
    return operation;
  }

  // Rank `me` adds `origin` to the numbers of rank `target`. If `shared`, the operation is a job of
  // which others may claim chunks.
  bool accumulate(std::uint32_t me, std::uint32_t target, std::vector<std::int64_t>& origin,
                  bool shared) {
    RmaContext context(ranks_.node(me), reach_);
    const BoundOperation operation = summing(me, target, origin);
    OperationRun running(ring_[me], operation, kStripe, shared);
    while (!running.step(context)) ::sched_yield();
    return running.succeeded();
  }

  test::Ranks ranks_;
  memory::Reach reach_;
  std::vector<std::vector<std::int64_t>> memory_;
  Ring ring_;
};

TEST_F(SharedWindowTest, a_third_rank_carries_out_chunks_of_an_accumulate) {
  std::vector<std::int64_t> origin = counting(kNumbers, 1);
  RmaContext owner(ranks_.node(0), reach_);
  RmaContext helper(ranks_.node(2), reach_);
  const BoundOperation operation = summing(0, 1, origin);
  OperationRun running(ring_[0], operation, kStripe, true);
  const auto anyone = [](std::uint32_t) { return true; };
  const auto nobody = [](std::uint32_t) { return false; };
  HelpedChunk helped;
  EXPECT_FALSE(ring_[2].help(helper, nobody, helped));
  std::uint64_t by_helper = 0;
  while (ring_[2].help(helper, anyone, helped)) {
    EXPECT_EQ(helped.owner, 0U);
    by_helper += helped.bytes;
  }
  EXPECT_GE(by_helper, operation.what.bytes);
  EXPECT_FALSE(ring_[0].help(owner, anyone, helped)) << "a rank does not help itself";
  EXPECT_TRUE(running.step(owner));
  EXPECT_TRUE(running.succeeded());
  EXPECT_FALSE(ring_[1].help(helper, anyone, helped)) << "nothing is left to be seen";
  EXPECT_EQ(memory_[1], origin);
}

TEST_F(SharedWindowTest, a_waiting_rank_helps_a_near_origin_first) {
  std::vector<std::int64_t> origin = counting(kNumbers, 1);
  const BoundOperation far = summing(0, 1, origin);
  const BoundOperation near = summing(1, 1, origin);
  OperationRun of_far(ring_[0], far, kStripe, true);
  OperationRun of_near(ring_[1], near, kStripe, true);
  ranks_.node(0).mine().numa.store(1);
  RmaContext helper(ranks_.node(2), reach_);
  std::vector<std::uint32_t> owners;
  HelpedChunk helped;
  while (ring_[2].help(
      helper, [](std::uint32_t) { return true; }, helped))
    owners.push_back(helped.owner);
  ASSERT_GT(owners.size(), 4U);
  EXPECT_TRUE(std::is_sorted(owners.rbegin(), owners.rend())) << "rank 1 is near, rank 0 is far";
  EXPECT_EQ(owners.front(), 1U);
  EXPECT_EQ(owners.back(), 0U);
}

TEST_F(SharedWindowTest, a_waiting_rank_helps_near_origins_at_random) {
  constexpr int kDraws = 32;
  std::vector<std::int64_t> origin = counting(kNumbers, 1);
  const BoundOperation first = summing(0, 1, origin);
  const BoundOperation second = summing(1, 1, origin);
  RmaContext owners[] = {RmaContext(ranks_.node(0), reach_), RmaContext(ranks_.node(1), reach_)};
  RmaContext helper(ranks_.node(2), reach_);
  std::set<std::uint32_t> helped_first;
  for (int draw = 0; draw < kDraws; ++draw) {
    OperationRun of_first(ring_[0], first, kStripe, true);
    OperationRun of_second(ring_[1], second, kStripe, true);
    HelpedChunk helped;
    ASSERT_TRUE(ring_[2].help(
        helper, [](std::uint32_t) { return true; }, helped));
    helped_first.insert(helped.owner);
    while (!of_first.step(owners[0])) continue;
    while (!of_second.step(owners[1])) continue;
  }
  EXPECT_EQ(helped_first.size(), 2U) << "not by number";
}

// The target is a block that does not begin at the start of its type, so its layout is not
// contiguous.
TEST_F(SharedWindowTest, owner_and_helper_cut_a_displaced_target_alike) {
  constexpr std::size_t kBefore = 1'234;
  constexpr std::size_t kSummed = kNumbers - kBefore;
  std::vector<std::int64_t> origin = counting(kSummed, 1);
  const std::array<std::int64_t, 1> first{kBefore};
  const LayoutPtr displaced = *layout::indexed_block(kSummed, first, **layout::named(8, 8));
  RmaContext owner(ranks_.node(0), reach_);
  RmaContext helper(ranks_.node(2), reach_);
  const BoundOperation operation = summing(0, 1, origin, displaced.get());
  OperationRun running(ring_[0], operation, kStripe, true);
  HelpedChunk helped;
  const auto anyone = [](std::uint32_t) { return true; };
  // Owner and helper carry out chunks in turn, so a number that was added twice or not at all shows
  // in the sums.
  while (!running.step(owner)) (void)ring_[2].help(helper, anyone, helped);
  EXPECT_TRUE(running.succeeded());
  for (std::size_t i = 0; i < kNumbers; ++i) {
    ASSERT_EQ(memory_[1][i], i < kBefore ? 0 : origin[i - kBefore]) << i;
  }
}

TEST_F(SharedWindowTest, a_target_end_must_lie_in_the_window) {
  const std::uint64_t base = ring_[0].exposed(1).base;
  EXPECT_TRUE(ring_[0].target_buffer(1, base, nullptr, 0, kNumbers * 8, reach_).has_value());
  EXPECT_FALSE(ring_[0].target_buffer(1, base + 8, nullptr, 0, kNumbers * 8, reach_).has_value());
  EXPECT_FALSE(ring_[0].target_buffer(1, base - 8, nullptr, 0, 16, reach_).has_value());
  const LayoutPtr gaps = every_second(4);
  EXPECT_TRUE(ring_[0].target_buffer(1, base, gaps.get(), 1, 32, reach_).has_value());
  const std::uint64_t end = base + kNumbers * 8;
  EXPECT_FALSE(ring_[0].target_buffer(1, end - 32, gaps.get(), 1, 32, reach_).has_value());
}

// An operation that returns a result and is small enough to be sent to the target by ask_target().
struct Asked {
  Asked(Ring& ring, std::uint32_t target, std::int64_t* origin, std::int64_t* result) {
    operation.what = {.op = Op::sum,
                      .type = Type::int64,
                      .atomic = true,
                      .has_origin = true,
                      .has_result = true,
                      .element = 8,
                      .target = target,
                      .bytes = 8};
    operation.origin = end_at(origin);
    operation.result = end_at(result);
    operation.target.base.address = ring[0].exposed(target).base;
  }
  BoundOperation operation;
};

TEST_F(SharedWindowTest, a_target_that_is_not_there_is_not_waited_for_and_does_nothing_later) {
  std::int64_t origin = 5;
  std::int64_t result = -1;
  const RmaContext origin_context(ranks_.node(0), reach_);
  const Asked asked(ring_, 1, &origin, &result);
  EXPECT_FALSE(ring_[0].ask_target(origin_context, asked.operation).has_value());
  RmaContext target(ranks_.node(1), reach_);
  ring_[1].serve(target);
  EXPECT_EQ(memory_[1][0], 0);
  EXPECT_EQ(result, -1);
}

// Two threads of one origin ask a target that never answers. Both change the count of skipped
// messages without the lock asking_, which must not be a race for ThreadSanitizer.
TEST_F(SharedWindowTest, threads_of_one_origin_may_ask_a_target_that_is_not_there) {
  constexpr int kTimes = 100;
  std::atomic<int> answers{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] {
      std::int64_t origin = 5;
      std::int64_t result = -1;
      const RmaContext context(ranks_.node(0), reach_);
      const Asked asked(ring_, 1, &origin, &result);
      for (int i = 0; i < kTimes; ++i) {
        if (ring_[0].ask_target(context, asked.operation)) ++answers;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers, 0);
  EXPECT_EQ(memory_[1][0], 0);
}

TEST_F(SharedWindowTest, targets_do_what_they_are_asked_for_once_each) {
  constexpr std::int64_t kTimes = 20;  // an origin does not wait for a target that has no core
  std::atomic<bool> over{false};
  std::vector<std::thread> targets;
  for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
    targets.emplace_back([&, rank] {
      RmaContext context(ranks_.node(rank), reach_);
      while (!over) {
        ring_[rank].serve(context);
        ::sched_yield();
      }
    });
  }
  std::int64_t done[kRanks] = {};
  const RmaContext origin_context(ranks_.node(0), reach_);
  for (std::uint32_t i = 0; done[1] < kTimes || done[2] < kTimes; ++i) {
    const std::uint32_t target = 1 + i % 2;
    std::int64_t origin = 1;
    std::int64_t result = -1;
    const Asked asked(ring_, target, &origin, &result);
    const auto answer = ring_[0].ask_target(origin_context, asked.operation);
    if (!answer) continue;
    ASSERT_TRUE(answer->ok());
    ASSERT_EQ(result, done[target]++);
  }
  over = true;
  for (std::thread& target : targets) target.join();
  EXPECT_EQ(memory_[1][0], done[1]);
  EXPECT_EQ(memory_[2][0], done[2]);
}

TEST_F(SharedWindowTest, sums_of_all_origins_at_once_are_exact_whoever_helps) {
  constexpr int kRounds = 6;
  std::atomic<bool> over{false};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (std::uint32_t me = 0; me < kRanks; ++me) {
    threads.emplace_back([&, me] {
      std::vector<std::int64_t> origin = counting(kNumbers, me);
      for (int round = 0; round < kRounds; ++round) {
        if (!accumulate(me, 1, origin, round % 2 == 0)) ++failures;
      }
    });
  }
  std::thread helper([&] {
    RmaContext context(ranks_.node(2), reach_);
    HelpedChunk helped;
    const auto anyone = [](std::uint32_t rank) { return rank != 2; };
    while (!over) {
      if (!ring_[2].help(context, anyone, helped)) ::sched_yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  over = true;
  helper.join();
  EXPECT_EQ(failures, 0);
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const auto index = static_cast<std::int64_t>(i);
    ASSERT_EQ(memory_[1][i], kRounds * (3 * index + 3)) << i;
  }
}

}  // namespace
}  // namespace mh::rma
