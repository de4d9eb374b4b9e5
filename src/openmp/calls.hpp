// SPDX-License-Identifier: BSD-3-Clause
// What a call of the OpenMP run time means for the region in which it is made.
//
// The rule is to permit, not to exclude: a call that is not known to be harmless keeps its region
// from being shared. So a construct that comes with the next compiler is safe before anybody here
// has heard of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "openmp/sites.hpp"

namespace mh::openmp {

// What the call does where it is made in a region that is shared already. (A region may reach it
// through a pointer or another library, for the first time in its thousandth execution.)
enum class Effect : std::uint8_t {
  none,           // the run time answers; a helper calls it, too
  owners_only,    // work for the team: a helper gets none of it
  begins_loop,    // likewise, and what follows asks for iterations of this loop
  begins_region,  // the calling thread is in a region of the run time from here on ...
  ends_region,    // ... to here
};

struct Rule {
  Obstacle obstacle;  // none: the call is permitted
  Effect effect = Effect::none;
};

// Whether a name is one that OpenMP run times give to their functions.
bool is_run_time_name(std::string_view name);
// Of a function of the run time. A name that is not known is an obstacle.
Rule rule_of(std::string_view name);

}  // namespace mh::openmp
