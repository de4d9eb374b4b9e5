// SPDX-License-Identifier: BSD-3-Clause
// Handles the encounter of a thread with a parallel region or a loop, in the same way for all
// OpenMP run times. The entry points (gomp.cpp, kmpc.cpp) translate the run times' calls.
//
// A region is *shared* if helpers on the cores of other ranks may join its loop. It is shared if
// its directive is marked (marker.hpp), or if every call of the run time that it makes is permitted
// (calls.hpp). The calls in question are those that the region made in its first, watched
// execution, and those that its code can reach (reachable_calls.hpp). GCC has calls of its own for
// a region that is one loop and nothing else; such a region is not watched. A shared region may
// still make other calls, through a pointer or in another library. After such a call the region is
// no longer shared, and the current execution is completed as OpenMP says. Thread-safe.
#pragma once

#include <utility>
#include <vector>

#include "openmp/marker.hpp"
#include "openmp/participation.hpp"
#include "openmp/real.hpp"
#include "openmp/region.hpp"

namespace mh::openmp {

// A parallel region as the compiler's code announces it when a thread encounters it.
struct Encounter {
  const void* code;  // the outlined function, which identifies the region
  Body body;         // runs the region's code on the calling thread
  void* data;        // the argument of `body`
  unsigned threads;  // number of threads that a clause asks for, 0 without a clause
  // Runs a body with a team of the OpenMP run time, without helpers.
  void (*run_by_team)(Body, void*, unsigned threads, const void* how);
  const void* how;               // the last argument of run_by_team
  const char* source = nullptr;  // see names.hpp
};

// The outcome of an encounter with a parallel region. If `done` is false, the caller lets the run
// time execute the region, while an object of class Nested (below) lives.
struct EncounterResult {
  bool done;
  Site* timed = nullptr;  // if not done: the site whose time is to be measured
};

// Executes the region if helpers may join it, or if this first execution is to show whether they
// may; else the result is not `done`.
EncounterResult run_shared(const Encounter& met);
// Does the same as run_shared(met) for a region that is one loop and nothing else. `own`: how the
// owner's threads cut chunks. `in_order`: each thread must get its iterations in ascending order.
EncounterResult run_shared(const Encounter& met, const Loop& loop, const LoopChunkRule& own,
                           bool in_order);

// Lives while the run time executes a region that helpers cannot join. The region may lie inside a
// shared region, which they can join.
class Nested {
 public:
  explicit Nested(const EncounterResult& met) : alone_(in_region()), stopwatch_(met.timed) {
    if (current != nullptr) current->meets_team_call(Obstacle::nested);
    saved_ = std::exchange(current, nullptr);
    ++depth;
  }
  ~Nested() {
    --depth;
    current = saved_;
  }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  // Returns the size of the region's team, of which the program wants `wanted` threads (0: no
  // clause). A region inside a shared region has a team of one, since its thread may be a helper.
  [[nodiscard]] unsigned threads(unsigned wanted) const {
    if (alone_) return 1;
    return wanted == kMarkedTeam ? static_cast<unsigned>(unshared_team()) : wanted;
  }

 private:
  bool alone_;
  Participant* saved_ = nullptr;
  Stopwatch stopwatch_;
};

// Begins a loop of the calling thread's region, with the rule `own` for the owner's chunks. An
// unspecified rule means a static loop, which this function shares only in a region that the user
// has marked. (With MH_OPENMP=static, other static regions may run as virtual threads, which do not
// come here; virtual_threads.hpp.)
// `in_order`: each thread must get its iterations in ascending order. Returns true if this loop is
// the one that helpers may join; the loop is then open.
bool begin_shared_loop(const Loop& loop, const LoopChunkRule& own, bool in_order);

// Each of the three functions below adds functions of Manyhands to the table by which calls of the
// run time are redirected: for libgomp (gomp.cpp), for libomp (kmpc.cpp), and for
// omp_get_thread_num() and similar queries (encounter.cpp).
void add_gomp(std::vector<Binding>& table);
void add_kmpc(std::vector<Binding>& table);
void add_queries(std::vector<Binding>& table);
// Called in a forked child, in which libomp numbers the only thread anew: forgets the cached number
// of the thread.
void forget_number();

}  // namespace mh::openmp
