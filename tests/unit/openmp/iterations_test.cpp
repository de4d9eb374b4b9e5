// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/iterations.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::openmp {

// Splits Iterations::join(), by which a helper enters a loop, into its load (look) and its
// compare-and-swap (join). A test can thus act between the two, as if the helper were preempted
// there.
struct IterationsTestAccess {
  static std::uint64_t look(const Iterations& all) { return all.word_.load(); }
  static bool join(Iterations& all, std::uint64_t seen) { return all.join(seen); }
};

namespace {

using Access = IterationsTestAccess;

TEST(Iterations, none_are_given_of_an_empty_loop) {
  Iterations all;
  all.open(0, 0, false);
  EXPECT_EQ(all.left(), 0U);
  EXPECT_TRUE(all.from_front(1).empty());
  EXPECT_TRUE(all.from_end(1).empty());
}

TEST(Iterations, the_front_and_the_end_meet) {
  Iterations all;
  all.open(10, 0, false);
  const IterationRange front = all.from_front(4);
  EXPECT_EQ(front.first, 0U);
  EXPECT_EQ(front.end, 4U);
  const IterationRange end = all.from_end(3);
  EXPECT_EQ(end.first, 7U);
  EXPECT_EQ(end.end, 10U);
  EXPECT_EQ(all.left(), 3U);
  EXPECT_EQ(all.from_end(100).size(), 3U);
  EXPECT_TRUE(all.from_front(1).empty());
}

TEST(Iterations, the_first_chunk_is_taken_by_opening) {
  Iterations all;
  const IterationRange first = all.open(10, 4, false);
  EXPECT_EQ(first.first, 0U);
  EXPECT_EQ(first.end, 4U);
  EXPECT_EQ(all.left(), 6U);
  EXPECT_EQ(all.from_front(1).first, 4U);
  EXPECT_EQ(all.open(3, 7, false).end, 3U);
  EXPECT_TRUE(all.from_front(1).empty());
}

// Claims chunks of random sizes. Together the chunks contain each iteration of the loop once.
TEST(Iterations, any_mix_of_claims_covers_the_loop_once) {
  std::mt19937_64 dice(11);
  const std::vector<std::uint64_t> counts{
      1, 2, 1000, (1ULL << 27U) - 2, (1ULL << 27U) - 1, 1ULL << 31U, 1ULL << 40U, ~0ULL};
  for (const std::uint64_t count : counts) {
    Iterations all;
    std::uint64_t front = all.open(count, dice() % 2 * dice() % 100, false).end;
    std::uint64_t end = count;
    while (front != end) {
      const std::uint64_t most = std::max<std::uint64_t>(1, (end - front) / (1 + dice() % 4));
      if (dice() % 2 == 0) {
        const IterationRange range = all.from_front(most);
        ASSERT_EQ(range.first, front);
        ASSERT_LE(range.end, end);
        ASSERT_FALSE(range.empty());
        front = range.end;
      } else {
        const IterationRange range = all.from_end(most);
        ASSERT_EQ(range.end, end);
        ASSERT_GE(range.first, front);
        ASSERT_FALSE(range.empty());
        end = range.first;
      }
    }
    EXPECT_TRUE(all.from_front(1).empty());
    EXPECT_EQ(all.left(), 0U);
  }
}

TEST(Iterations, threads_that_claim_together_get_each_one_once) {
  constexpr std::uint64_t kCount = 200'000;
  Iterations all;
  all.open(kCount, 0, false);
  std::vector<std::vector<IterationRange>> got(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < got.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t size = 1;; size = size % 7 + 1) {
          const IterationRange range = t % 2 == 0 ? all.from_front(size) : all.from_end(size);
          if (range.empty()) return;
          got[t].push_back(range);
        }
      });
    }
  }
  std::vector<int> seen(kCount);
  for (const auto& ranges : got) {
    for (const IterationRange& range : ranges) {
      for (std::uint64_t i = range.first; i < range.end; ++i) ++seen[i];
    }
  }
  EXPECT_TRUE(std::ranges::all_of(seen, [](int times) { return times == 1; }));
}

// ---- Helpers that enter a loop ------------------------------------------------------------------

TEST(Iterations, helpers_come_in_once_they_are_admitted_and_while_something_is_left) {
  Iterations all;
  all.open(2, 0, false);
  EXPECT_FALSE(all.join());
  EXPECT_TRUE(all.is_settled());
  all.admit();
  EXPECT_FALSE(all.is_settled());
  EXPECT_TRUE(all.join());
  all.refuse();
  EXPECT_FALSE(all.join());
  EXPECT_FALSE(all.is_settled()) << "one is inside";
  EXPECT_EQ(all.from_end(1).first, 1U) << "and takes part";
  all.leave();
  EXPECT_TRUE(all.is_settled());
  EXPECT_EQ(all.left(), 1U);
  all.admit();
  EXPECT_EQ(all.from_front(1).first, 0U);
  EXPECT_TRUE(all.is_settled());
  EXPECT_FALSE(all.join());
}

TEST(Iterations, so_many_helpers_and_no_more) {
  Iterations all;
  all.open(1, 0, true);
  for (std::uint64_t i = 0; i < Iterations::kMostHelpers; ++i) EXPECT_TRUE(all.join());
  EXPECT_FALSE(all.join());
  EXPECT_EQ(all.from_front(5).size(), 1U);
  for (std::uint64_t i = 0; i < Iterations::kMostHelpers; ++i) {
    EXPECT_FALSE(all.is_settled());
    all.leave();
  }
  EXPECT_TRUE(all.is_settled());
}

TEST(Iterations, a_helper_cannot_join_after_the_last_claim) {
  Iterations all;
  all.open(2, 1, true);
  const std::uint64_t seen = Access::look(all);
  EXPECT_FALSE(all.from_front(1).empty());
  EXPECT_TRUE(all.is_settled());
  EXPECT_FALSE(Access::join(all, seen));
  EXPECT_TRUE(all.is_settled());
}

TEST(Iterations, a_helper_that_read_the_previous_loop_may_join_this_loop) {
  Iterations all;
  all.open(2, 0, true);
  const std::uint64_t seen = Access::look(all);
  EXPECT_EQ(all.from_front(2).size(), 2U);
  ASSERT_TRUE(all.is_settled());
  all.open(2, 0, true);
  EXPECT_TRUE(Access::join(all, seen));
  EXPECT_FALSE(all.is_settled());
  EXPECT_EQ(all.from_end(2).size(), 2U);
  all.leave();
  EXPECT_TRUE(all.is_settled());
  all.open(5, 5, true);
  EXPECT_FALSE(Access::join(all, seen)) << "nothing is left of this one";
}

// Loops of all sizes follow each other, with helpers that never stop looking for one. join() and
// leave() alone order the accesses of helpers to plain memory.
TEST(Iterations, loops_follow_one_another_under_helpers) {
  constexpr int kLoops = test::kSanitized ? 5'000 : 50'000;
  Iterations all;
  std::vector<std::uint64_t> done;
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> joined{0};
  std::vector<std::thread> helpers;
  for (int t = 0; t < 3; ++t) {
    helpers.emplace_back([&] {
      while (!over.load(std::memory_order_relaxed)) {
        if (!all.join()) {
          ::sched_yield();
          continue;
        }
        joined.fetch_add(1, std::memory_order_relaxed);
        for (IterationRange range = all.from_end(2); !range.empty(); range = all.from_end(2)) {
          for (std::uint64_t i = range.first; i < range.end; ++i) ++done[i];
        }
        all.leave();
      }
    });
  }
  std::mt19937_64 dice(5);
  int loops = 0;
  const auto patience_ends = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  while (loops < kLoops ||
         (joined.load() == 0 && std::chrono::steady_clock::now() < patience_ends)) {
    const std::uint64_t count = dice() % 20;
    done.assign(count, 0);
    const bool at_once = dice() % 2 == 0;
    IterationRange range = all.open(count, dice() % 3, at_once);
    if (!at_once) all.admit();
    if (dice() % 4 == 0) ::sched_yield();
    for (bool more = true; more; range = all.from_front(1), more = !range.empty()) {
      for (std::uint64_t i = range.first; i < range.end; ++i) ++done[i];
    }
    if (dice() % 8 == 0) all.refuse();
    while (!all.is_settled()) ::sched_yield();
    ASSERT_TRUE(std::ranges::all_of(done, [](std::uint64_t times) { return times == 1; }));
    ++loops;
  }
  over.store(true);
  for (std::thread& helper : helpers) helper.join();
  EXPECT_GT(joined.load(), 0U);
}

}  // namespace
}  // namespace mh::openmp
