// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/calls/in_loop.hpp"

#include <sched.h>

#include <atomic>

#include "base/say.hpp"
#include "lend/pool.hpp"
#include "mpi/collective/arrivals.hpp"
#include "mpi/front/entry.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi::in_loop {
namespace {

using openmp::Obstacle;
using openmp::Participant;

// The turn to call the MPI library, as a fair lock: a thread that passes its turn on queues behind
// the threads that wait for theirs.
class TurnLock {
 public:
  void lock() {
    const std::uint32_t mine = next_.fetch_add(1, std::memory_order_relaxed);
    if (is_served(mine)) return;
    lend::give_core_back();
    while (!is_served(mine)) ::sched_yield();
  }
  void unlock() {
    // Only the lock's holder writes `served_`. release: pairs with the acquire of the next holder
    // in is_served().
    served_.store(served_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // True if another thread waits for the lock. Called by the lock's holder between two tests of its
  // wait. relaxed: a hint, since the holder asks again soon.
  [[nodiscard]] bool is_wanted() const {
    return next_.load(std::memory_order_relaxed) - served_.load(std::memory_order_relaxed) > 1;
  }

 private:
  [[nodiscard]] bool is_served(std::uint32_t number) const {
    return served_.load(std::memory_order_acquire) == number;
  }
  std::atomic<std::uint32_t> next_{0};
  std::atomic<std::uint32_t> served_{0};
};
TurnLock g_library;

constinit thread_local bool t_in_call = false;
// True while this thread is in an MPI call that, whenever it has to wait, lets other threads have
// its turn to call the library.
constinit thread_local bool t_may_pass = false;

void exclude_if_needed(Participant& me, Rule rule) {
  if (me.marked) return;
  // A region that calls MPI needs a team of real threads. The virtual threads
  // (openmp/virtual_threads.hpp) of a real thread run one after the other: while one waits for a
  // message, none of the others could send it.
  me.meets_team_call(Obstacle::mpi);
  if (me.team != nullptr) openmp::exclude_region(me, Obstacle::mpi);
  if (rule == Rule::refused) openmp::exclude_region(me, Obstacle::collectives);
  if (!config.multiple) openmp::exclude_region(me, Obstacle::mpi);
}

}  // namespace

void expect_threads() {
  if (switches.threads) return;
  arrivals::end_tight_loops();
  switches.threads = true;
}

Turn::Turn(Participant& me, Rule rule) : me_(me), outermost_(!t_in_call) {
  if (!outermost_) return;
  t_in_call = true;
  exclude_if_needed(me, rule);
  has_library_ = !config.multiple && me.role != Participant::Role::watched;
  if (!has_library_) return;
  g_library.lock();
  // A helper calls MPI, so from now on several threads may be in intercepted calls. The moment is
  // safe: this helper holds the lock of the turns, so the owner is in no call of the library. The
  // owner's earlier calls did not pass their turns on while they waited, because switches.threads
  // was false.
  if (me.role == Participant::Role::helper) expect_threads();
  t_may_pass = switches.threads;
}

Turn::~Turn() {
  if (!outermost_) return;
  t_in_call = false;
  t_may_pass = false;
  if (has_library_) g_library.unlock();
}

bool Turn::refuses(const char* call) const {
  if (!outermost_ || !(me_.marked || me_.role == Participant::Role::helper)) return false;
  static Once once;
  if (once()) {
    print_message(
        "rank {} calls {} in a shared loop: no collective and no one-sided call may be made there, "
        "because iterations run in any order; move it out, or do not share the loop",
        config.world_rank, call);
  }
  return true;
}

int raise_on_comm(MPI_Comm comm) {
  real.Comm_call_errhandler(comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

int raise_on_window(MPI_Win window) {
  real.Win_call_errhandler(window, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

void pass_turn() {
  if (!t_may_pass || !g_library.is_wanted()) return;
  g_library.unlock();
  g_library.lock();
}

void start() { refill_table(fill_entries_for_loops); }

}  // namespace mh::mpi::in_loop
