// SPDX-License-Identifier: BSD-3-Clause
#include "heap/budget.hpp"

#include <gtest/gtest.h>

namespace mh::heap {
namespace {

constexpr std::uint64_t kStart = 1000;  // ms

Budget begun() {
  Budget budget;
  budget.begin(kStart);
  return budget;
}

TEST(Budget, one_that_has_not_begun_allows_everything) {
  Budget budget;
  budget.spend(UINT64_MAX / 2);
  EXPECT_TRUE(budget.allows(UINT64_MAX, kStart));
}

TEST(Budget, a_block_may_take_a_quarter_of_what_is_left) {
  Budget budget = begun();
  EXPECT_TRUE(budget.allows(Budget::kAtOnce / 4, kStart));
  EXPECT_FALSE(budget.allows(Budget::kAtOnce / 4 + 1, kStart));
  budget.spend(Budget::kAtOnce / 2);
  EXPECT_TRUE(budget.allows(Budget::kAtOnce / 8, kStart));
  EXPECT_FALSE(budget.allows(Budget::kAtOnce / 8 + 1, kStart));
}

TEST(Budget, each_second_earns_more) {
  Budget budget = begun();
  budget.spend(Budget::kAtOnce);
  EXPECT_FALSE(budget.allows(1, kStart));
  EXPECT_TRUE(budget.allows(Budget::kPerSecond / 4, kStart + 1000));
  EXPECT_FALSE(budget.allows(Budget::kPerSecond / 4 + 1, kStart + 1000));
}

TEST(Budget, spending_more_than_was_earned_allows_nothing) {
  Budget budget = begun();
  budget.spend(10 * Budget::kAtOnce);
  EXPECT_FALSE(budget.allows(1, kStart));
  EXPECT_TRUE(budget.allows(0, kStart));
}

TEST(Budget, one_that_has_ended_allows_nothing) {
  Budget budget = begun();
  budget.end();
  EXPECT_FALSE(budget.allows(1, kStart));
  EXPECT_FALSE(budget.allows(1, kStart + 1000));
}

TEST(Budget, the_end_of_one_that_has_not_begun_has_no_effect) {
  Budget budget;
  budget.end();
  EXPECT_TRUE(budget.allows(UINT64_MAX, kStart));
}

}  // namespace
}  // namespace mh::heap
