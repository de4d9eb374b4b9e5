// SPDX-License-Identifier: BSD-3-Clause
// Lists of short operations, against an array that does them at once: carried out by their origin,
// by loads and stores or by the kernel, and by a target that waits.
#include "rma/kept.hpp"

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

constexpr std::size_t kNumbers = 20'000;  // of several stripes

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

class KeptTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kRanks = 2;

  KeptTest()
      : shared_(Control::bytes_needed(kRanks)),
        control_(shared_.span().data(), kRanks),
        ranks_(kRanks) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) control_.construct(rank);
  }

  // As `rank` has it. The numbers are the memory of rank 1, which is the process `pid`.
  Window window(std::uint32_t rank, const Numbers& numbers, pid_t pid = ::getpid()) {
    std::vector<Exposed> exposed(kRanks);
    exposed[1] = {.base = reinterpret_cast<std::uint64_t>(numbers.data()),
                  .bytes = kNumbers * 8,
                  .unit = 8,
                  .node_rank = 1,
                  .pid = pid};
    return {control_, rank, exposed};
  }

  // Keeps it, after what was kept before if there is no room.
  static void keep(Window& window, Hands& hands, const Operation& what, std::uint64_t address,
                   const std::int64_t* origin) {
    if (window.keep(what, address, origin)) return;
    ASSERT_TRUE(window.carry_out_kept(hands, 1).ok());
    ASSERT_TRUE(window.keep(what, address, origin));
  }

  // So many operations, here and in the model. Neighbours and the same place come often.
  static void play(Window& window, Hands& hands, Numbers& model, int operations) {
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
      keep(window, hands, is_put ? put_of(numbers) : sum_of(numbers), address, origin);
      for (std::size_t k = 0; k < numbers; ++k) {
        const std::uint64_t before = is_put ? 0 : static_cast<std::uint64_t>(model[at + k]);
        model[at + k] = static_cast<std::int64_t>(before + static_cast<std::uint64_t>(origin[k]));
      }
      if (random() % 2 == 0) at += numbers;
    }
    ASSERT_TRUE(window.carry_out_kept(hands, 1).ok());
    EXPECT_FALSE(window.has_kept());
  }

  test::SharedMemory shared_;
  Control control_;
  test::Ranks ranks_;
  memory::Reach reach_;
};

TEST_F(KeptTest, what_the_origin_carries_out_is_what_was_kept_in_its_order) {
  Numbers numbers = counting();
  Numbers model = numbers;
  Window origin = window(0, numbers);
  Hands hands(ranks_.node(0), reach_);
  play(origin, hands, model, 5000);
  EXPECT_EQ(numbers, model);
}

TEST_F(KeptTest, nothing_is_done_before_it_is_carried_out_and_all_of_it_once) {
  Numbers numbers = counting();
  Window origin = window(0, numbers);
  Hands hands(ranks_.node(0), reach_);
  const std::int64_t one = 1;
  ASSERT_TRUE(origin.keep(sum_of(1), origin.exposed(1).base + 40, &one));
  EXPECT_TRUE(origin.has_kept());
  EXPECT_EQ(numbers, counting());
  ASSERT_TRUE(origin.carry_out_kept(hands, 1).ok());
  ASSERT_TRUE(origin.carry_out_kept(hands, 1).ok());
  EXPECT_EQ(numbers[5], 6);
}

TEST_F(KeptTest, long_operations_and_those_with_a_result_are_not_kept) {
  Numbers numbers = counting();
  Window origin = window(0, numbers);
  const Numbers from = counting();
  Operation fetching = sum_of(1);
  fetching.has_result = true;
  EXPECT_FALSE(origin.keep(fetching, origin.exposed(1).base, from.data()));
  EXPECT_FALSE(origin.keep(put_of(KeptList::kMost / 8 + 1), origin.exposed(1).base, from.data()));
  EXPECT_FALSE(origin.has_kept());
}

TEST_F(KeptTest, a_target_that_waits_carries_lists_out) {
  Numbers numbers = counting();
  Numbers model = numbers;
  Window origin = window(0, numbers);
  std::atomic<bool> over{false};
  std::thread target([&] {
    Window own = window(1, numbers);
    Hands hands(ranks_.node(1), reach_);
    while (!over) {
      own.serve(hands);
      ::sched_yield();
    }
  });
  Hands hands(ranks_.node(0), reach_);
  bool was_taken = false;  // a target whose core is somebody else's is not waited for
  while (!was_taken) {
    play(origin, hands, model, 500);
    const std::uint64_t word = control_.part(0).message.word;
    was_taken = ActiveMessage::state_of(word) == ActiveMessage::kDone;
  }
  over = true;
  target.join();
  EXPECT_EQ(numbers, model);
}

// A child, whose private memory nobody maps.
TEST_F(KeptTest, the_kernel_writes_to_memory_that_is_not_mapped) {
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
  Hands hands(ranks_.node(0), reach_);
  const std::int64_t one = 0;
  ASSERT_TRUE(origin.keep(put_of(1), origin.exposed(1).base, &one));
  const Status reached = origin.carry_out_kept(hands, 1);
  if (reached.code == Code::refused) GTEST_SKIP() << "ptrace of children is not permitted";
  play(origin, hands, model, 5000);
  step = 2;
  ASSERT_EQ(child.wait(), 0);
  EXPECT_EQ(std::memcmp(seen, model.data(), kNumbers * 8), 0);
}

TEST_F(KeptTest, memory_that_is_gone_is_an_error) {
  Numbers numbers = counting();
  test::Child child([] {
    for (;;) ::pause();
    return 0;
  });
  Window origin = window(0, numbers, child.pid());
  Hands hands(ranks_.node(0), reach_);
  const std::int64_t one = 1;
  ASSERT_TRUE(origin.keep(put_of(1), 4096, &one));
  EXPECT_FALSE(origin.carry_out_kept(hands, 1).ok());
  EXPECT_FALSE(origin.has_kept());
}

}  // namespace
}  // namespace mh::rma
