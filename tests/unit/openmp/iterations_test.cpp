// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/iterations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace mh::openmp {
namespace {

TEST(Iterations, none_are_given_of_an_empty_loop) {
  Iterations all;
  all.open(0);
  EXPECT_EQ(all.left(), 0U);
  EXPECT_TRUE(all.from_front(1).empty());
  EXPECT_TRUE(all.from_end(1).empty());
}

TEST(Iterations, the_front_and_the_end_meet) {
  Iterations all;
  all.open(10);
  const Range front = all.from_front(4);
  EXPECT_EQ(front.first, 0U);
  EXPECT_EQ(front.end, 4U);
  const Range end = all.from_end(3);
  EXPECT_EQ(end.first, 7U);
  EXPECT_EQ(end.end, 10U);
  EXPECT_EQ(all.left(), 3U);
  EXPECT_EQ(all.from_end(100).size(), 3U);
  EXPECT_TRUE(all.from_front(1).empty());
}

// Chunks as they come, of loops of any size: together they are the loop, each iteration once.
TEST(Iterations, any_mix_of_claims_covers_the_loop_once) {
  std::mt19937_64 dice(11);
  const std::vector<std::uint64_t> counts{1,           2,           1000,        (1ULL << 31U) - 1,
                                          1ULL << 31U, 1ULL << 32U, 1ULL << 40U, ~0ULL};
  for (const std::uint64_t count : counts) {
    Iterations all;
    all.open(count);
    std::uint64_t front = 0;
    std::uint64_t end = count;
    while (front != end) {
      const std::uint64_t most = std::max<std::uint64_t>(1, (end - front) / (1 + dice() % 4));
      if (dice() % 2 == 0) {
        const Range range = all.from_front(most);
        ASSERT_EQ(range.first, front);
        ASSERT_LE(range.end, end);
        ASSERT_FALSE(range.empty());
        front = range.end;
      } else {
        const Range range = all.from_end(most);
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
  all.open(kCount);
  std::vector<std::vector<Range>> got(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < got.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t size = 1;; size = size % 7 + 1) {
          const Range range = t % 2 == 0 ? all.from_front(size) : all.from_end(size);
          if (range.empty()) return;
          got[t].push_back(range);
        }
      });
    }
  }
  std::vector<int> seen(kCount);
  for (const auto& ranges : got) {
    for (const Range& range : ranges) {
      for (std::uint64_t i = range.first; i < range.end; ++i) ++seen[i];
    }
  }
  EXPECT_TRUE(std::ranges::all_of(seen, [](int times) { return times == 1; }));
}

}  // namespace
}  // namespace mh::openmp
