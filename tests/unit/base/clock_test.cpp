// SPDX-License-Identifier: BSD-3-Clause
#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace mh {
namespace {

TEST(Clock, ticks_never_go_back_on_one_thread) {
  std::uint64_t before = ticks();
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t now = ticks();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, ticks_agree_with_the_monotonic_clock) {
  ticks_per_ns();  // calibrates outside of the measured time
  double best_error = 1;
  for (int attempt = 0; attempt < 5 && best_error > 0.001; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t first = ticks();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(20)) spin_pause();
    const std::uint64_t last = ticks();
    const double truth =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    best_error = std::min(best_error, std::abs(ns_from_ticks(last - first) / truth - 1));
  }
  EXPECT_LT(best_error, 0.01);
}

TEST(Clock, conversion_there_and_back_is_the_identity) {
  EXPECT_NEAR(ns_from_ticks(ticks_from_ns(1e6)), 1e6, 1);
}

}  // namespace
}  // namespace mh
