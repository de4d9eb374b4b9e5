// SPDX-License-Identifier: BSD-3-Clause
// A thread of the program meets a parallel region or a loop: what happens is the same for every
// OpenMP run time. The entry points (gomp.cpp, kmpc.cpp) translate to and from these.
//
// A region is shared if its directive was marked (marker.hpp), or if every call that it makes into
// the run time is permitted (calls.hpp): those that it was seen to make when it was run the first
// time, unless it is a loop and nothing else (GCC has calls for that), and those that its code can
// reach (reach.hpp). A region may still reach others, through a pointer or another library. Then it
// is not shared any more, and what has been begun ends as OpenMP says.
#pragma once

#include <utility>
#include <vector>

#include "openmp/marker.hpp"
#include "openmp/participation.hpp"
#include "openmp/real.hpp"
#include "openmp/region.hpp"

namespace mh::openmp {

// A parallel region as the compiler's code announces it.
struct Encounter {
  const void* code;  // names the region: its outlined function
  Body body;         // runs it on the calling thread
  void* data;
  unsigned threads;  // wanted by a clause, 0 without one
  // Runs a body by a team of the run time.
  void (*run_by_team)(Body, void*, unsigned threads, const void* how);
  const void* how;
  const char* source = nullptr;  // see names.hpp
};

// What becomes of a region that was met. Not done: the caller runs it as without us, inside Nested.
struct Outcome {
  bool done;
  Site* timed = nullptr;  // not done: of a region that could have been shared, were it another
};

// Runs the region if it is to be shared or watched.
Outcome run_shared(const Encounter& met);
// Likewise a region that is the loop and nothing else.
Outcome run_shared(const Encounter& met, const Loop& loop, const Cut& own, bool in_order);

// While the run time runs a region that is none of ours, be it inside one that is.
class Nested {
 public:
  explicit Nested(const Outcome& met)
      : alone_(in_region()), kept_(std::exchange(current, nullptr)), stopwatch_(met.timed) {
    ++depth;
  }
  ~Nested() {
    --depth;
    current = kept_;
  }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  // A region inside a shared one has a team of one: its thread may be a helper. So has a marked one
  // that is not shared.
  [[nodiscard]] unsigned threads(unsigned wanted) const {
    return alone_ || wanted == kMarkedTeam ? 1 : wanted;
  }

 private:
  bool alone_;
  Participant* kept_;
  Stopwatch stopwatch_;
};

// This thread, of a region, begins a loop; `unspecified`: one whose iterations cannot be handed out
// in any order. True if it is the shared one, which then is open.
bool begin_shared(const Loop& loop, const Cut& own, bool in_order);

// Our entry points: libgomp's (gomp.cpp), libomp's (kmpc.cpp), omp_get_thread_num() and its like.
void add_gomp(std::vector<Binding>& table);
void add_kmpc(std::vector<Binding>& table);
void add_queries(std::vector<Binding>& table);
// Libomp numbers the calling thread anew: it is the only one of a new process.
void forget_number();

}  // namespace mh::openmp
