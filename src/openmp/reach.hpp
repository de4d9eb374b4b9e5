// SPDX-License-Identifier: BSD-3-Clause
// Which calls of the OpenMP run time the code of a region can reach, though it may not have made
// them when it was watched.
//
// The machine code of the region is looked through, and of every function of its object that it
// calls directly, whether a branch leads there in this run or not. Functions are told apart by the
// table that exception handling needs, which stripped programs have too.
//
// Limits: calls through pointers and into other objects are not followed; encounter.hpp says what
// becomes of what they reach. An object without the table, code that is not understood
// (instructions.hpp) and a region that reaches more than 4 MB of it are taken to reach all that
// their object imports.
#pragma once

#include "openmp/sites.hpp"

namespace mh::openmp {

// Of the region that was compiled to `code`: none if all that it can reach is permitted.
Obstacle obstacle_within_reach(const void* code);

}  // namespace mh::openmp
