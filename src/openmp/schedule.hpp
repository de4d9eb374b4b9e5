// SPDX-License-Identifier: BSD-3-Clause
// The schedule of the run time, as omp_set_schedule() or OMP_SCHEDULE has set it. Any thread.
#pragma once

#include "openmp/region.hpp"

namespace mh::openmp {

// The schedule that schedule(runtime) stands for just now; unspecified if that is a fixed one.
Cut cut_at_run_time();

}  // namespace mh::openmp
