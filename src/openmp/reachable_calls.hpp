// SPDX-License-Identifier: BSD-3-Clause
// The calls of the OpenMP run time that the code of a region can reach, although the region did not
// make them in its first execution, whose calls were watched.
//
// Searches the machine code of the region, and of every function of the same object that this code
// calls directly, on all branches. The table for exception handling, which stripped programs have
// too, tells where functions begin. Thread-safe.
//
// Limits: calls through pointers and into other objects are not followed; encounter.hpp says how
// such calls are handled. Three cases count as reaching every import of the object: an object
// without the table, code that cannot be decoded (instructions.hpp), and more than 4 MB of
// reachable code.
#pragma once

#include "openmp/sites.hpp"

namespace mh::openmp {

// Returns the obstacle to sharing in the region that was compiled to `code`; `none` if all calls of
// the run time that its code can reach are permitted.
Obstacle obstacle_within_reach(const void* code);

// The answer whether the region that was compiled to `code` may run by virtual threads
// (virtual_threads.hpp). Calls of the OpenMP run time that need a team and calls of MPI are
// obstacles, and so are data that each thread has for itself, unless `thread_data_permitted`. Code
// of another object that has calls of the run time is an obstacle, too. The last is a fence in code
// of the region's own object: GCC compiles `omp flush` to a fence.
struct VirtualReach {
  Obstacle obstacle = Obstacle::none;
  VirtualUse use{};  // valid if there is no obstacle
};
VirtualReach virtual_threads_within_reach(const void* code, bool thread_data_permitted);
}  // namespace mh::openmp
