// SPDX-License-Identifier: BSD-3-Clause
// Loops that the user has marked to be shared with other ranks (#pragma ws for). The wrapper
// compilers pass the result of __mh_ws_mark() as the number of threads of such a region, and the
// schedules as arguments of __mh_ws_mark().
//
// Without Manyhands __mh_ws_mark() does not exist, and the loop is serial. While loops are shared,
// __mh_ws_mark() returns kMarkedTeam, by which the next region that the thread encounters is known
// to be marked. Otherwise (one rank on the node, more ranks than cores) the loop gets the team of
// an ordinary parallel loop. Thread-safe.
#pragma once

#include "openmp/region.hpp"

namespace mh::openmp {

inline constexpr unsigned kMarkedTeam = 1U << 20U;

struct Mark {
  LoopChunkRule own;  // for the owner's threads
  LoopChunkRule helpers;
};

// Implements __mh_ws_mark(), which a marked loop calls first: `schedule` and `chunk` say how the
// owner's threads cut chunks, the other two how helpers do. Schedules: 0 unspecified, 1 static, 2
// dynamic, 3 guided, 4 runtime, 5 auto; a chunk of 0 is unspecified. Returns the number of threads
// that the loop's region asks for.
int mark_next_region(int schedule, long chunk, int steal_schedule, long steal_chunk);

// Called if the MPI library admits several threads at a time: from then on a marked loop that is
// not shared with helpers has a team, all of whose threads may call MPI. Before, such a loop has
// one thread.
void permit_teams();
// Returns the number of threads of a marked loop that is not shared with helpers, outside of all
// parallel regions.
int unshared_team();

// The mark of the marked loop that this thread has begun last, set by mark_next_region().
extern constinit thread_local Mark last_mark;

}  // namespace mh::openmp
