// SPDX-License-Identifier: BSD-3-Clause
// What all threads of this process share loops by, which sharing.cpp switches on and off; and how
// the calling thread takes part in regions, asked and told by the entry points of the run times
// (gomp.cpp, kmpc.cpp, stubs.cpp).
#pragma once

#include <atomic>
#include <cstdint>

#include "openmp/lists.hpp"
#include "openmp/region.hpp"
#include "openmp/sites.hpp"

namespace mh::openmp {

extern Sites sites;
extern Lists& lists;  // of the user

// Whose loops: those that the user marked, or those of every region that allows it.
enum class Whose : std::uint8_t { marked, all };
extern Whose whose;

namespace detail {
// relaxed: set while no loop is shared, and a thread that does not see it yet shares none.
extern std::atomic<Region*> region;
}  // namespace detail

// Null while loops are not shared.
inline Region* shared_region() { return detail::region.load(std::memory_order_relaxed); }

// ---- The calling thread

// Takes part in a shared region, as owner or as helper.
inline bool in_region() {
  return current != nullptr && current->role != Participant::Role::watched;
}
inline bool is_helper() { return current != nullptr && current->role == Participant::Role::helper; }
// Is in the shared loop. Further loops of a region that was not seen to have them are the owner's
// team's: a helper gets nothing of them.
inline bool in_shared_loop() { return in_region() && current->loops == 1; }

// This thread's region does what keeps it from being shared; what has been begun comes to its end.
// None: it does not.
inline void note(Obstacle what) {
  if (current == nullptr || what == Obstacle::none) return;
  if (current->marked) {
    current->meets(what);
  } else {
    exclude(*current, what);
  }
}

// The calling thread's team waits for all of its threads, by `together`, and so do helpers.
template <class Together>
void meet_team(Together&& together) {
  if (!in_region()) return together();
  Region& region = *shared_region();
  if (is_helper()) return region.await_team();
  region.before_barrier(*current);
  together();
  region.after_barrier(*current);
}

// Regions that the run time runs and this thread has met, as far as that was seen here. The run
// time knows, too, but LLVM's takes as long to say so as a quarter of a shared loop costs.
extern constinit thread_local std::uint32_t depth;

// The calling thread runs code of nobody's region, in a region of the run time, from here to there:
// what it takes part in waits meanwhile.
void begin_set_aside();
void end_set_aside();

}  // namespace mh::openmp
