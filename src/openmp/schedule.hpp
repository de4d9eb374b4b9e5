// SPDX-License-Identifier: BSD-3-Clause
// Converts a schedule, by its number in OpenMP's omp_sched_t, to the rule by which threads cut
// their chunks. Thread-safe.
#pragma once

#include "openmp/real.hpp"
#include "openmp/region.hpp"

namespace mh::openmp {

inline constexpr int kDynamic = 2;
inline constexpr int kGuided = 3;
inline constexpr int kRunTime = 4;  // the schedule that omp_set_schedule() or OMP_SCHEDULE has set

// Returns the rule for chunks of a loop with this schedule. The rule is unspecified for every
// schedule that is neither dynamic nor guided: such a loop is divided before it begins.
inline LoopChunkRule chunk_rule_of(int schedule, std::int64_t chunk) {
  if (schedule == kRunTime) [[unlikely]] {
    constexpr int kModifiers = static_cast<int>(0x80000000U);  // omp_sched_monotonic
    int size = 0;
    real.get_schedule(&schedule, &size);
    schedule &= ~kModifiers;
    chunk = size;
  }
  if (schedule != kDynamic && schedule != kGuided) return {};
  return {.schedule = schedule == kDynamic ? Schedule::dynamic : Schedule::guided,
          .chunk = chunk > 0 ? static_cast<std::uint64_t>(chunk) : 1};
}

}  // namespace mh::openmp
