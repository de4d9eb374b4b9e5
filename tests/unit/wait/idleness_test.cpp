// SPDX-License-Identifier: BSD-3-Clause
#include "wait/idleness.hpp"

#include <gtest/gtest.h>

namespace mh::wait {
namespace {

constexpr std::uint64_t kLeast = 1000;
constexpr std::uint64_t kMost = 16000;

TEST(Idleness, starts_with_the_least_spin) { EXPECT_EQ(Idleness(kLeast, kMost).spin(), kLeast); }

TEST(Idleness, short_waits_keep_the_least_spin) {
  Idleness idleness(kLeast, kMost);
  for (int i = 0; i < 100; ++i) idleness.ended_alone(100);
  EXPECT_EQ(idleness.spin(), kLeast);
}

TEST(Idleness, waits_that_end_alone_after_a_while_make_the_next_spin_longer) {
  Idleness idleness(kLeast, kMost);
  for (int i = 0; i < 100; ++i) idleness.ended_alone(4000);
  EXPECT_GT(idleness.spin(), 2 * 3500U);
  EXPECT_LE(idleness.spin(), 2 * 4000U);
}

TEST(Idleness, no_wait_however_long_makes_a_rank_spin_for_more_than_the_most) {
  Idleness idleness(kLeast, kMost);
  for (int i = 0; i < 100; ++i) idleness.ended_alone(1'000'000'000);
  EXPECT_EQ(idleness.spin(), kMost);
}

TEST(Idleness, helping_brings_the_spin_down_again) {
  Idleness idleness(kLeast, kMost);
  for (int i = 0; i < 100; ++i) idleness.ended_alone(8000);
  for (int i = 0; i < 20; ++i) idleness.helped();
  EXPECT_EQ(idleness.spin(), kLeast);
}

TEST(Idleness, equal_bounds_fix_the_spin) {
  Idleness idleness(kLeast, kLeast);
  for (int i = 0; i < 10; ++i) idleness.ended_alone(9000);
  EXPECT_EQ(idleness.spin(), kLeast);
}

}  // namespace
}  // namespace mh::wait
