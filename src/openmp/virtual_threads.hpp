// SPDX-License-Identifier: BSD-3-Clause
// A parallel region executed by virtual threads: its function is called once for each thread number
// of the team that the program sees.
//
// A static loop is divided before it begins, by the number of the thread and the size of the team.
// If no thread waits for another, the calls of the function may therefore run in any order, on any
// thread. The calls are the iterations of a shared loop (region.hpp): the rank's own threads claim
// from the front, helpers from the end. Inside a call, all queries of the thread and its team
// answer with the virtual ones (encounter.cpp, kmpc.cpp). If the rank has several own threads, each
// begins in its own part of the team, so that it touches the same data in each execution.
//
// Virtual threads that may meet at a barrier have stacks of their own (fibres.hpp). A virtual
// thread that comes to a barrier pauses. When all have paused, the real threads claim the virtual
// threads once more: a new *phase*. Reductions of LLVM's run time combine at such a barrier.
//
// A region qualifies by the calls that it made while it was watched, and by the calls that its code
// can reach (virtual_threads_within_reach() in reachable_calls.hpp). The calls do not show whether
// a thread waits for a word in memory that another thread writes; if one does, StuckWatch runs the
// other threads.
//
// Limits: kMost threads in a team, TeamFibres::kMost with barriers. A team that is not larger than
// the rank's number of cores is left to the run time.
#pragma once

#include <atomic>
#include <cstdint>

#include "openmp/fibres.hpp"
#include "openmp/real.hpp"
#include "openmp/region.hpp"

namespace mh::openmp {

// The number of the rank's own cores; 0: loops with a static schedule are not shared with helpers.
// Written before loops are shared.
extern std::uint32_t own_cores;

class VirtualTeam {
 public:
  static constexpr std::uint32_t kMost = 1024;

  // `size`: the number of virtual threads, which is the size of the team that the program sees.
  // `most`: the answer of omp_get_max_threads(). `own_threads`: the number of the rank's own
  // threads that run the region. `fibres`: one for each virtual thread if these may meet at
  // barriers, else null.
  VirtualTeam(Body body, void* data, std::uint32_t size, std::uint32_t own_threads, int most,
              TeamFibre* fibres)
      : body_(body),
        data_(data),
        size_(size),
        own_threads_(own_threads),
        most_(most),
        fibres_(fibres) {}

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] int most_threads() const { return most_; }
  [[nodiscard]] Loop loop() const { return {.step = 1, .bound = size_, .count = size_}; }

  // The body that the rank's own threads and helpers run in place of the region's: each claims
  // virtual threads of the VirtualTeam `team` and runs them, until all are claimed.
  static void run_claimed(void* team);

  // ---- Barriers of the team; called by virtual threads ------------------------------------------

  [[nodiscard]] bool has_barriers() const { return fibres_ != nullptr; }
  // A barrier: returns when all virtual threads of the team have called meet(). `number`: the
  // caller's number in the team.
  void meet(std::uint32_t number);
  // A barrier with a reduction: returns as meet() does, after the data of all virtual threads have
  // been combined into the data of thread 0. `combine` adds the data of its second argument to
  // those of its first. The order of the sums is that of LLVM's run time, a tree: a thread's data
  // take in those of threads whose numbers differ from its own in one bit.
  using Combine = void (*)(void*, void*);
  void meet_and_combine(std::uint32_t number, void* data, Combine combine);

 private:
  static constexpr std::uint32_t kBits = 64;

  void run(Participant& me, std::uint32_t number);
  bool run_on_fibre(std::uint32_t number);
  static void run_body(void* team);
  void stopped(bool ended);
  void combine_all();
  [[nodiscard]] bool await_phase(Participant& me, std::uint32_t phase) const;
  std::uint32_t number_for(const Participant& me, std::uint64_t claim);
  bool take(std::uint32_t number);

  Body body_;
  void* data_;
  std::uint32_t size_;
  std::uint32_t own_threads_;
  int most_;
  TeamFibre* fibres_;
  bool begun_ = false;  // the first phase is over, so the fibres have begun
  // The function of the reduction at the barrier to come; null: there is no reduction. Any virtual
  // thread of the team writes it before it stops; all write the same. relaxed: stopped_ publishes
  // it.
  std::atomic<Combine> combine_{nullptr};
  // The number of virtual threads that have paused at a barrier or ended in this phase, the time
  // from one barrier to the next. acq_rel: the last one sees the work of all.
  std::atomic<std::uint32_t> stopped_{0};
  // phase_ is the number of barriers that the team has passed, or kOver once all virtual threads
  // have ended. release by the last thread to stop, acquire in await_phase() and run_claimed().
  static constexpr std::uint32_t kOver = ~0U;
  std::atomic<std::uint32_t> phase_{0};
  // A bit for each thread number that a virtual thread has taken since the last barrier; used if
  // the rank has several own threads. relaxed: a number publishes nothing.
  std::atomic<std::uint64_t> taken_[kMost / kBits]{};
};

// Returns the thread number that the program is to see on the thread `me`: that of the virtual
// thread that it runs, if any, else its own.
inline std::uint32_t thread_number(const Participant& me) {
  return me.team != nullptr ? me.virtual_number : me.number;
}
// Returns the team of the virtual thread that the calling thread runs; null: the thread runs none.
inline VirtualTeam* virtual_team() { return current != nullptr ? current->team : nullptr; }

// Returns the team of the virtual thread that the calling thread runs, if the threads of that team
// may meet at barriers; else null.
inline VirtualTeam* team_that_meets() {
  VirtualTeam* const team = virtual_team();
  return team != nullptr && team->has_barriers() ? team : nullptr;
}

// Lives while this process executes a region by virtual threads (calls of the region's function).
// If no virtual thread is claimed for a second although some are left, a thread may wait for a
// virtual thread that has not begun. Further threads then run the virtual threads that are left,
// one more thread each second.
class StuckWatch {
 public:
  explicit StuckWatch(SharedRegion& region);
  ~StuckWatch();
  StuckWatch(const StuckWatch&) = delete;
  StuckWatch& operator=(const StuckWatch&) = delete;
  // True if the watching thread had to run virtual threads, in any region, since found() was last
  // called: some virtual threads wait for others.
  [[nodiscard]] bool found() const;
};

}  // namespace mh::openmp
