// SPDX-License-Identifier: BSD-3-Clause
// Common parts of the tests that run protocols on the checker (checker.hpp): bounds of the
// exploration and expectations on the verdict.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "support/sanitizer.hpp"
#include "ult/checker.hpp"

namespace mh::ult::check {

using Threads = std::vector<std::function<void()>>;
using Flag = Model::Atomic<std::uint32_t>;

// Bounds with at most `times` preemptions. A sanitizer makes each switch of the checker's threads
// many times slower. A sanitizer build therefore runs only the first executions; these still show
// that the scenarios themselves are free of errors.
inline Bounds preempted(int times) {
  if (test::kSanitized) return {.preemptions = std::min(times, 1), .executions = 10'000};
  return {.preemptions = times};
}

inline void expect_holds(const Verdict& verdict, std::uint64_t at_least) {
  EXPECT_EQ(verdict.failure, "") << "after" << verdict.trace;
  if (test::kSanitized) return;
  EXPECT_TRUE(verdict.complete) << verdict.executions << " executions were not all";
  EXPECT_GE(verdict.executions, at_least) << "the scenario is too small to say anything";
}

}  // namespace mh::ult::check
