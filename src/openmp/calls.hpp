// SPDX-License-Identifier: BSD-3-Clause
// The effect of a call of the OpenMP run time on the parallel region that makes the call: whether
// other ranks' cores may still help with the region's loop.
//
// The table in calls.cpp lists the calls that are permitted. An unknown call keeps its region from
// being shared with helpers, so that a construct of a future compiler does no harm. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "openmp/sites.hpp"

namespace mh::openmp {

// The effect of a call in a region that is already shared, so helpers may be in it. Even in its
// thousandth execution a region may make a call for the first time: through a pointer, or in
// another library.
enum class Effect : std::uint8_t {
  none,           // owner's threads and helpers make the call
  owners_only,    // work of the owner's team: a helper skips the call
  begins_loop,    // like owners_only; later calls ask for iterations of this loop
  begins_region,  // begins a region of the run time on the calling thread
  ends_region,    // ends the region that begins_region began
};

struct CallRule {
  Obstacle obstacle;  // none: the call is permitted
  Effect effect = Effect::none;
};

// True if the name begins as names of functions of OpenMP run times do, such as `omp_` or `GOMP_`.
bool is_run_time_name(std::string_view name);
// Returns the rule for a call of the run time's function `name` in a shared region, whose loop
// helpers may join. The rule for an unknown name has an obstacle, which ends the sharing of the
// region.
CallRule rule_of(std::string_view name);

// True if a virtual thread, the call of a region's function for one thread number
// (virtual_threads.hpp), can call the run time's function `name`. Either the run time answers alike
// without a team, or Manyhands answers in its place.
bool can_be_virtual(std::string_view name);
// True if the threads of a team wait for each other in the run time's function `name`, as at a
// barrier. Virtual threads (virtual_threads.hpp) that call it need stacks of their own, on which
// they pause.
bool is_meeting(std::string_view name);
// True if an argument of the run time's function `name` is the number by which the run time knows
// the calling thread. After a barrier, a virtual thread (virtual_threads.hpp) may go on on another
// thread, whose number differs.
bool is_numbered(std::string_view name);
// Returns the reason why a region that calls the run time's function `name` cannot run by virtual
// threads (virtual_threads.hpp); none: there is no reason.
Obstacle virtual_obstacle_of(std::string_view name);

}  // namespace mh::openmp
