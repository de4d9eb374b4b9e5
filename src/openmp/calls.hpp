// SPDX-License-Identifier: BSD-3-Clause
// The effect of a call of the OpenMP run time on the region that makes the call.
//
// The table lists the calls that are permitted. An unknown call keeps its region from being shared,
// so that a construct of a future compiler is safe. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "openmp/sites.hpp"

namespace mh::openmp {

// The effect of a call in a region that is shared already. A region may reach a call through a
// pointer or another library, for the first time in its thousandth execution.
enum class Effect : std::uint8_t {
  none,           // the run time answers; a helper makes the call, too
  owners_only,    // work of the team: a helper gets none of it
  begins_loop,    // like owners_only; the calls that follow ask for iterations of this loop
  begins_region,  // begins a region of the run time on the calling thread
  ends_region,    // ends the region that begins_region began
};

struct CallRule {
  Obstacle obstacle;  // none: the call is permitted
  Effect effect = Effect::none;
};

// True for a name of the kind that OpenMP run times give to their functions.
bool is_run_time_name(std::string_view name);
// The rule of a run-time function. An unknown name is an obstacle.
CallRule rule_of(std::string_view name);

// True if a virtual thread (virtual_threads.hpp) can make the call. Either the run time answers
// alike without a team, or Manyhands answers in its place.
bool can_be_virtual(std::string_view name);
// True if the threads of a team wait for each other in the call, as at a barrier. Virtual threads
// then need stacks of their own.
bool is_meeting(std::string_view name);
// True if the call passes the run time's own number of the calling thread. A virtual thread may go
// on with another number after a barrier.
bool is_numbered(std::string_view name);
// The obstacle to virtual threads in a region that makes the call.
Obstacle virtual_obstacle_of(std::string_view name);

}  // namespace mh::openmp
