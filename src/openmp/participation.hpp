// SPDX-License-Identifier: BSD-3-Clause
// The state by which all threads of the process share loops (switched on and off by sharing.cpp),
// and the calling thread's role in regions. The entry points of the run times (gomp.cpp, kmpc.cpp,
// stubs.cpp) read and set that role.
#pragma once

#include <atomic>
#include <cstdint>

#include "openmp/lists.hpp"
#include "openmp/region.hpp"
#include "openmp/sites.hpp"

namespace mh::openmp {

extern Sites sites;
extern Lists& lists;  // set by the user

// marked: loops that the user has marked. all: loops of every region that allows sharing.
enum class SharedLoops : std::uint8_t { marked, all };
extern SharedLoops shared_loops;

namespace detail {
// relaxed: written while no loop is shared; a thread that sees an old value shares no loop.
extern std::atomic<SharedRegion*> region;
}  // namespace detail

// Null while loops are not shared.
inline SharedRegion* shared_region() { return detail::region.load(std::memory_order_relaxed); }

// ---- The calling thread -------------------------------------------------------------------------

// True if the calling thread runs the body of a shared region, as owner or as helper.
inline bool in_region() {
  return current != nullptr && current->role != Participant::Role::watched;
}
inline bool is_helper() { return current != nullptr && current->role == Participant::Role::helper; }
// True if the calling thread is in the shared loop. Further loops of the region belong to the
// owner's team: a helper gets no iterations of them.
inline bool in_shared_loop() { return in_region() && current->loops == 1; }

// Reports that the region of this thread makes a call that prevents sharing. The current execution
// goes on to its end, later executions are not shared. `none`: no effect.
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
// virtual thread (virtual_threads.hpp) can make as well. Does the same as report_obstacle(), except
// that `needs_team` stays as it was. Has no effect on a virtual thread.
inline void report_division(Obstacle what) {
  if (current == nullptr || current->team != nullptr) return;
  const Obstacle before = current->needs_team;
  report_obstacle(what);
  current->needs_team = before;
}
// Reports a call in which the threads of a team wait for each other, and which a virtual thread can
// make as well. `needs_team` stays as it was.
inline void report_meeting(Obstacle what) {
  if (current == nullptr) return;
  current->meets_barrier = true;
  const Obstacle before = current->needs_team;
  report_obstacle(what);
  current->needs_team = before;
}

// Makes all threads of the caller's team wait for each other in `together`, the run time's barrier.
// Helpers wait outside of that barrier, by the functions of the region.
template <class Together>
void meet_team(Together&& together) {
  if (!in_region()) return together();
  SharedRegion& region = *shared_region();
  if (is_helper()) return region.await_team();
  region.before_barrier(*current);
  together();
  region.after_barrier(*current);
}

// Number of the run time's regions that this thread has encountered and not left. The run time
// knows the number, too, but LLVM's query takes a quarter of the time that a shared loop costs.
extern constinit thread_local std::uint32_t depth;

// Called at the begin and the end of code that the thread runs outside of its shared region, in a
// region of the run time. The thread's Participant (`current`) is put aside meanwhile.
void begin_set_aside();
void end_set_aside();

}  // namespace mh::openmp
