// SPDX-License-Identifier: BSD-3-Clause
// Loops that the user has marked (#pragma ws for): the wrapper compilers let the number of threads
// of such a region be what __mh_ws_mark() returns, with the schedules as its arguments.
//
// Without Manyhands the function does not exist, or returns 1: the loop is serial. With it the
// number returned stands for a marked region, which is met next by this thread.
#pragma once

#include "openmp/region.hpp"

namespace mh::openmp {

inline constexpr unsigned kMarkedTeam = 1U << 20U;

struct Mark {
  Cut own;
  Cut helpers;
};

// What __mh_ws_mark() does. Schedules: 0 unspecified, 1 static, 2 dynamic, 3 guided, 4 runtime,
// 5 auto; a chunk of 0 is unspecified. Returns the number of threads to ask for.
int mark(int schedule, long chunk, int steal_schedule, long steal_chunk);

// The mark of the region that this thread has met last.
extern constinit thread_local Mark last_mark;

}  // namespace mh::openmp
