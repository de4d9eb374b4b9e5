// SPDX-License-Identifier: BSD-3-Clause
// Lists of deferred operations. The origin (by loads and stores, or by the kernel) or a waiting
// target carries them out. The results are compared with an array that is updated at once.
#include "rma/deferred.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "rma/window.hpp"
#include "support/child.hpp"
#include "support/ranks.hpp"
#include "support/shared.hpp"

namespace mh::rma {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kNumbers = 20'000;  // several stripes

Numbers counting() {
  Numbers made(kNumbers);
  for (std::size_t i = 0; i < kNumbers; ++i) made[i] = static_cast<std::int64_t>(i);
  return made;
}

Operation put_of(std::size_t numbers) {
  return {.op = Op::replace, .has_origin = true, .target = 1, .bytes = numbers * 8};
}
Operation sum_of(std::size_t numbers) {
  Operation sum = put_of(numbers);
  sum.op = Op::sum;
  sum.type = Type::int64;
  sum.atomic = true;
  sum.element = 8;
  return sum;
}

class DeferredTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kRanks = 2;

  DeferredTest()
      : shared_(Control::bytes_needed(kRanks)),
        control_(shared_.span().data(), kRanks),
        ranks_(kRanks) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) control_.construct(rank);
  }

  // Makes the window object of `rank`. `numbers` is the window's memory of rank 1, which is the
  // process `pid`.
  Window window(std::uint32_t rank, const Numbers& numbers, pid_t pid = ::getpid()) {
    std::vector<Exposed> exposed(kRanks);
    exposed[1] = {.base = reinterpret_cast<std::uint64_t>(numbers.data()),
                  .bytes = kNumbers * 8,
                  .unit = 8,
                  .node_rank = 1,
                  .pid = pid};
    return {control_, rank, exposed};
  }

  // Puts an operation on the list of deferred operations. If the list is full, carries out all of
  // the list first.
  static void defer_or_carry_out(Window& window, RmaContext& context, const Operation& what,
                                 std::uint64_t address, const std::int64_t* origin) {
    if (window.defer(what, address, origin)) return;
    ASSERT_TRUE(window.carry_out_deferred(context, 1).ok());
    ASSERT_TRUE(window.defer(what, address, origin));
  }

  // Defers `operations` random operations, and applies each to the model at once. Adjacent and
  // repeated addresses are frequent.
  static void play(Window& window, RmaContext& context, Numbers& model, int operations) {
    std::mt19937_64 random(11);
    std::size_t at = 0;
    std::int64_t origin[64];
    for (int i = 0; i < operations; ++i) {
      const std::size_t numbers = 1 + random() % 64;
      if (random() % 4 == 0) at = random() % kNumbers;
      if (at + numbers > kNumbers) at = 0;
      for (std::size_t k = 0; k < numbers; ++k) origin[k] = static_cast<std::int64_t>(random());
      const bool is_put = random() % 3 != 0;
      const std::uint64_t address = window.exposed(1).base + at * 8;
      defer_or_carry_out(window, context, is_put ? put_of(numbers) : sum_of(numbers), address,
                         origin);
      for (std::size_t k = 0; k < numbers; ++k) {
        const std::uint64_t before = is_put ? 0 : static_cast<std::uint64_t>(model[at + k]);
        model[at + k] = static_cast<std::int64_t>(before + static_cast<std::uint64_t>(origin[k]));
      }
      if (random() % 2 == 0) at += numbers;
    }
    ASSERT_TRUE(window.carry_out_deferred(context, 1).ok());
    EXPECT_FALSE(window.has_deferred());
  }

  test::SharedMemory shared_;
  Control control_;
  test::Ranks ranks_;
  memory::Reach reach_;
};

TEST_F(DeferredTest, the_origin_carries_out_the_deferred_operations_in_their_order) {
  Numbers numbers = counting();
  Numbers model = numbers;
  Window origin = window(0, numbers);
  RmaContext context(ranks_.node(0), reach_);
  play(origin, context, model, 5000);
  EXPECT_EQ(numbers, model);
}

TEST_F(DeferredTest, deferred_operations_are_carried_out_once_and_not_before) {
  Numbers numbers = counting();
  Window origin = window(0, numbers);
  RmaContext context(ranks_.node(0), reach_);
  const std::int64_t one = 1;
  ASSERT_TRUE(origin.defer(sum_of(1), origin.exposed(1).base + 40, &one));
  EXPECT_TRUE(origin.has_deferred());
  EXPECT_EQ(numbers, counting());
  ASSERT_TRUE(origin.carry_out_deferred(context, 1).ok());
  ASSERT_TRUE(origin.carry_out_deferred(context, 1).ok());
  EXPECT_EQ(numbers[5], 6);
}

TEST_F(DeferredTest, long_operations_and_those_with_a_result_are_not_deferred) {
  Numbers numbers = counting();
  Window origin = window(0, numbers);
  const Numbers from = counting();
  Operation fetching = sum_of(1);
  fetching.has_result = true;
  EXPECT_FALSE(origin.defer(fetching, origin.exposed(1).base, from.data()));
  EXPECT_FALSE(
      origin.defer(put_of(DeferredList::kMost / 8 + 1), origin.exposed(1).base, from.data()));
  EXPECT_FALSE(origin.has_deferred());
}

TEST_F(DeferredTest, a_target_that_waits_carries_lists_out) {
  Numbers numbers = counting();
  Numbers model = numbers;
  Window origin = window(0, numbers);
  std::atomic<bool> over{false};
  std::thread target([&] {
    Window own = window(1, numbers);
    RmaContext context(ranks_.node(1), reach_);
    while (!over) {
      own.serve(context);
      ::sched_yield();
    }
  });
  RmaContext context(ranks_.node(0), reach_);
  bool was_taken = false;  // an origin does not wait for a target that has no core
  while (!was_taken) {
    play(origin, context, model, 500);
    const std::uint64_t word = control_.part(0).message.word;
    was_taken = ActiveMessage::state_of(word) == ActiveMessage::kDone;
  }
  over = true;
  target.join();
  EXPECT_EQ(numbers, model);
}

// The target is a child process whose private memory the test does not map, so only the kernel can
// write there.
TEST_F(DeferredTest, the_kernel_writes_to_memory_that_is_not_mapped) {
  Numbers numbers = counting();  // the child has its own copy
  Numbers model = numbers;
  test::SharedMemory shared(kNumbers * 8 + 64);
  auto& step = *new (shared.span().data()) std::atomic<int>(0);
  std::byte* const seen = shared.span().data() + 64;
  test::Child child([&] {
    step = 1;
    while (step != 2) ::sched_yield();
    std::memcpy(seen, numbers.data(), kNumbers * 8);
    return 0;
  });
  while (step != 1) ::sched_yield();
  Window origin = window(0, numbers, child.pid());
  RmaContext context(ranks_.node(0), reach_);
  const std::int64_t one = 0;
  ASSERT_TRUE(origin.defer(put_of(1), origin.exposed(1).base, &one));
  const Status reached = origin.carry_out_deferred(context, 1);
  if (reached.code == Code::refused) GTEST_SKIP() << "ptrace of children is not permitted";
  play(origin, context, model, 5000);
  step = 2;
  ASSERT_EQ(child.wait(), 0);
  EXPECT_EQ(std::memcmp(seen, model.data(), kNumbers * 8), 0);
}

TEST_F(DeferredTest, memory_that_is_gone_is_an_error) {
  Numbers numbers = counting();
  test::Child child([] {
    for (;;) ::pause();
    return 0;
  });
  Window origin = window(0, numbers, child.pid());
  RmaContext context(ranks_.node(0), reach_);
  const std::int64_t one = 1;
  ASSERT_TRUE(origin.defer(put_of(1), 4096, &one));
  EXPECT_FALSE(origin.carry_out_deferred(context, 1).ok());
  EXPECT_FALSE(origin.has_deferred());
}

}  // namespace
}  // namespace mh::rma
