// SPDX-License-Identifier: BSD-3-Clause
// The state by which all threads of the process share loops with helpers (switched on and off by
// sharing.cpp), and the calling thread's role in parallel regions. The entry points of the OpenMP
// run times (gomp.cpp, kmpc.cpp, stubs.cpp) read and set that role.
#pragma once

#include <atomic>
#include <cstdint>

#include "openmp/lists.hpp"
#include "openmp/region.hpp"
#include "openmp/sites.hpp"

namespace mh::openmp {

extern Sites sites;
extern Lists& lists;  // set by the user

// Tells which loops helpers may join. `marked`: those that the user has marked. `all`: loops of
// every region that allows sharing.
enum class SharedLoops : std::uint8_t { marked, all };
extern SharedLoops shared_loops;

namespace detail {
// The process's one shared region; null while loops are not shared. relaxed: written while no loop
// is shared; a thread that sees an old value shares no loop.
extern std::atomic<SharedRegion*> region;
}  // namespace detail

// Returns the object that runs the regions whose loops helpers may join; null while loops are not
// shared.
inline SharedRegion* shared_region() { return detail::region.load(std::memory_order_relaxed); }

// ---- The calling thread's role in parallel regions ----------------------------------------------

// True if the calling thread runs the body of the process's shared region (region.hpp), as owner or
// as helper.
inline bool in_region() {
  return current != nullptr && current->role != Participant::Role::watched;
}
inline bool is_helper() { return current != nullptr && current->role == Participant::Role::helper; }
// True if the calling thread is in the loop of its region that helpers may join. Further loops of
// the region belong to the owner's team: a helper gets no iterations of them.
inline bool in_shared_loop() { return in_region() && current->loops == 1; }

// Reports that the region of this thread makes a call that keeps helpers from joining. The current
// execution goes on to its end, later executions are not shared. `none`: no effect.
inline void report_obstacle(Obstacle what) {
  if (current == nullptr || what == Obstacle::none) return;
  current->meets_team_call(what);
  if (current->marked) {
    current->meets(what);
  } else {
    exclude_region(*current, what);
  }
}

// Reports a call that needs a team of threads, such as the start of a static loop, but that a
// virtual thread (virtual_threads.hpp) can make as well. As report_obstacle() does, it keeps
// helpers from joining the region. Virtual threads may still run the region: the obstacle to them,
// `needs_team`, stays as it was. Has no effect on a virtual thread.
inline void report_division(Obstacle what) {
  if (current == nullptr || current->team != nullptr) return;
  const Obstacle before = current->needs_team;
  report_obstacle(what);
  current->needs_team = before;
}
// Reports a call in which the threads of a team wait for each other, and which a virtual thread
// (virtual_threads.hpp) can make as well. As report_obstacle() does, it keeps helpers from joining
// the region. Virtual threads may still run the region: the obstacle to them, `needs_team`, stays
// as it was.
inline void report_meeting(Obstacle what) {
  if (current == nullptr) return;
  current->meets_barrier = true;
  const Obstacle before = current->needs_team;
  report_obstacle(what);
  current->needs_team = before;
}

// Makes all threads of the caller's team wait for each other in `together`, the run time's barrier.
// Helpers, which the run time does not know, wait outside of that barrier, by the functions of the
// shared region.
template <class Together>
void meet_team(Together&& together) {
  if (!in_region()) return together();
  SharedRegion& region = *shared_region();
  if (is_helper()) return region.await_team();
  region.before_barrier(*current);
  together();
  region.after_barrier(*current);
}

// Number of parallel regions that this thread has encountered and not left, and that the run time
// executes. The run time could tell the number, but LLVM's query takes a quarter of the time that a
// shared loop costs.
extern constinit thread_local std::uint32_t depth;

// Called at the begin and the end of a region that the run time executes, and that may lie inside a
// shared region of this thread. Meanwhile `current`, the thread's role in the shared region, is put
// aside, so that calls of the inner region do not count as calls of the shared one.
void begin_set_aside();
void end_set_aside();

}  // namespace mh::openmp
