// SPDX-License-Identifier: BSD-3-Clause
#include "wait/adaptive_spin.hpp"

#include <gtest/gtest.h>

namespace mh::wait {
namespace {

constexpr std::uint64_t kLeast = 1000;
constexpr std::uint64_t kMost = 16000;

TEST(AdaptiveSpin, starts_with_the_least_spin) {
  EXPECT_EQ(AdaptiveSpin(kLeast, kMost).length(), kLeast);
}

TEST(AdaptiveSpin, short_waits_keep_the_least_spin) {
  AdaptiveSpin spin(kLeast, kMost);
  for (int i = 0; i < 100; ++i) spin.ended_alone(100);
  EXPECT_EQ(spin.length(), kLeast);
}

TEST(AdaptiveSpin, waits_that_end_alone_after_a_while_make_the_next_spin_longer) {
  AdaptiveSpin spin(kLeast, kMost);
  for (int i = 0; i < 100; ++i) spin.ended_alone(4000);
  EXPECT_GT(spin.length(), 2 * 3500U);
  EXPECT_LE(spin.length(), 2 * 4000U);
}

TEST(AdaptiveSpin, no_wait_however_long_makes_a_rank_spin_for_more_than_the_most) {
  AdaptiveSpin spin(kLeast, kMost);
  for (int i = 0; i < 100; ++i) spin.ended_alone(1'000'000'000);
  EXPECT_EQ(spin.length(), kMost);
}

TEST(AdaptiveSpin, helping_brings_the_spin_down_again) {
  AdaptiveSpin spin(kLeast, kMost);
  for (int i = 0; i < 100; ++i) spin.ended_alone(8000);
  for (int i = 0; i < 20; ++i) spin.helped();
  EXPECT_EQ(spin.length(), kLeast);
}

TEST(AdaptiveSpin, equal_bounds_fix_the_spin) {
  AdaptiveSpin spin(kLeast, kLeast);
  for (int i = 0; i < 10; ++i) spin.ended_alone(9000);
  EXPECT_EQ(spin.length(), kLeast);
}

}  // namespace
}  // namespace mh::wait
