// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/schedule.hpp"

#include "openmp/real.hpp"

namespace mh::openmp {

Cut cut_at_run_time() {
  constexpr int kDynamic = 2;  // omp_sched_t
  constexpr int kGuided = 3;
  constexpr int kModifiers = static_cast<int>(0x80000000U);  // omp_sched_monotonic
  int schedule = 0;
  int chunk = 0;
  real.get_schedule(&schedule, &chunk);
  schedule &= ~kModifiers;
  const std::uint64_t size = chunk > 0 ? static_cast<std::uint64_t>(chunk) : 1;
  if (schedule == kDynamic) return {.schedule = Schedule::dynamic, .chunk = size};
  if (schedule == kGuided) return {.schedule = Schedule::guided, .chunk = size};
  return {};
}

}  // namespace mh::openmp
