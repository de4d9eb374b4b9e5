// SPDX-License-Identifier: BSD-3-Clause
// The wait loop of blocking calls: polls for the caller's message, and helps other ranks meanwhile.
//
// until(done) returns when done() is true. While done() is false, the rank does the first of these
// steps that finds work, and calls done() after each step:
//   - progress of our own protocol: resends, landed headers, pieces to and from other nodes;
//   - a chunk of a message to or from this rank;
//   - lending its core to the process at the other end of a message to or from this rank;
//   - help for another rank: a chunk of its job (steal::Thief: ranks of this NUMA node first) or of
//     its one-sided operation, or this core for a unit;
//   - a task that the waiting thread has offered (TaskOffer);
//   - backing off.
//
// A step is at most a chunk (about 100 us), a unit on a lent core (lend/unit_length.hpp), or a
// task. A rank therefore sees its own message at most a step late. done() must drive the MPI
// library, as a failed MPI_Test does.
//
// Waits that never help are elsewhere. Locks, waits for a helper or thief that is already at work,
// and LCI spin or yield in their own rooms.
//
// Threads: any number of threads of a rank may wait; a single thread at a time helps. A thread on a
// core lent by another rank (a guest) gives the core back if its wait lasts, and helps no rank. If
// the waiting threads outnumber the rank's cores, the server polls for all in until_shared(), and
// the others sleep (threads/election.hpp). Light tasks park in until_shared() (parking.hpp).
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "wait/parking.hpp"
#include "wait/predicate.hpp"

namespace mh::wait {

// The actions of a rank while it waits. The rooms above install them; the loop knows none of those
// rooms.
class WaitActions {
 public:
  virtual ~WaitActions() = default;
  // Progress of our own protocol. Never blocks.
  virtual void progress() = 0;
  // Copies at most one chunk of a message that this rank receives or sends. True: a chunk was
  // moved.
  virtual bool copy_own_chunk() = 0;
  // Lends the core, for a unit, to a rank whose process is late with a message to or from this
  // rank. True: the core was lent.
  virtual bool lend_to_partner() = 0;
  // Does copy_own_chunk() and lend_to_partner() for a nested wait: the thread that performs this
  // rank's actions waits within an action. True: a chunk was moved or the core lent. Never blocks.
  virtual bool copy_own_chunk_nested() = 0;
  // Helps another rank with one chunk or one unit. True: something was done.
  virtual bool help() = 0;
  // A long wait is over: ends the actions that the wait began for other ranks.
  virtual void end() = 0;
  // Sets whether the rank is idle: it waits and holds no chunk. Thieves count ranks not idle.
  virtual void set_idle(bool now) = 0;
  // Says that the wait which began at `since` (ticks) goes on after its spin; 0: it is over.
  virtual void set_waiting(std::uint64_t since) = 0;
  // Counts a wait that has ended after `waited` ticks, copying included.
  virtual void count_wait(std::uint64_t waited) = 0;
  // Called before each further poll of a wait: threads that call MPI in turns pass their turn on.
  virtual void between_polls() = 0;
  // True if the calling thread runs on a core lent by another rank, and so helps no other rank.
  virtual bool is_guest() = 0;
  // True if the guest has kept the lent core longer than allowed.
  virtual bool is_overdue() = 0;
  // Gives the guest's core back to the lender. May be called again.
  virtual void return_core() = 0;
};

struct WaitRules {
  std::uint64_t least_spin = 0;  // ticks that a wait spins before it helps: bounds
  std::uint64_t most_spin = 0;
  bool oversubscribed = false;  // more ranks than cores: a wait yields at once, and helps no rank
  bool yields = false;          // more ranks than real cores: a long wait yields
  // Cores shared by the threads of this rank; 0: its threads never wait together.
  std::uint32_t cores = 0;
};

// Tasks that a thread may run in its own waits.
struct TaskOffer {
  int (*has)(void* of) = nullptr;
  void (*run)(void* of) = nullptr;
  void* of = nullptr;
};
// Offers tasks of the calling thread from now on ({}: none), and returns its previous offer. A
// thread that offers tasks polls for its messages itself, even if other threads wait.
TaskOffer offer_tasks(const TaskOffer& tasks);

// Whether offered tasks may run in a wait: only if no lock is held and nothing is half done that
// another call of the same thread could meet.
enum class OfferedTasks : std::uint8_t { none, may_run };

// Called before the first wait that shall help, and with nullptr before `actions` is destroyed.
void install_actions(WaitActions* actions, const WaitRules& rules);
// The value of WaitRules::cores.
std::uint32_t cores();

namespace detail {

void until_slow(Predicate done, OfferedTasks tasks);
void until_shared_slow(Predicate done);
bool help_if_polling(Predicate poll);

}  // namespace detail

// Number of calls of done() before any bookkeeping, so that a short wait costs these calls alone.
// Ranks that may have chunks of their own to move use kFewPolls. Other ranks use kManyPolls (a
// microsecond or two of failed tests), as in a latency-bound exchange.
inline constexpr int kFewPolls = 8;
inline constexpr int kManyPolls = 40;

template <class Done>
inline void until(Done&& done, int polls = kFewPolls, OfferedTasks tasks = OfferedTasks::none) {
  for (int poll = 0; poll < polls; ++poll) {
    if (done()) return;
  }
  detail::until_slow(detail::Predicate(done), tasks);
}

// Does the same as until(), for a call of the program. Another thread of this rank may call done()
// while the caller sleeps. done() must therefore not depend on the thread, must not wait, and must
// not need a lock that the caller holds. After done() has returned true, no thread calls done()
// again. Offered tasks may run. If the caller is a light task, its worker runs other tasks
// meanwhile, and the caller may continue on another thread.
template <class Done>
inline void until_shared(Done&& done, int polls = kFewPolls) {
  if (parking::is_in_task()) [[unlikely]]
    polls = 0;
  for (int poll = 0; poll < polls; ++poll) {
    if (done()) return;
  }
  detail::until_shared_slow(detail::Predicate(done));
}

// From now on only the waiting thread itself calls done() of until_shared().
void share_no_waits();

// To be called after a failed MPI_Test, MPI_Iprobe or the like. Makes progress of our own protocol
// and copies at most one chunk of the rank's own jobs, so a program that polls is not slower than a
// program that waits.
void note_failed_poll();

// Called after a failed poll, once in PollingStretch::kPolls failed polls. If the program has done
// nothing but poll for a while, the rank helps others with one step, as in a wait. `poll` polls
// once more, and is true if the poll succeeded. Returns true as soon as poll() has been true, and
// does not call poll() again. For programs in which one thread calls MPI.
template <class Poll>
inline bool help_if_polling(Poll&& poll) {
  return detail::help_if_polling(detail::Predicate(poll));
}

// A step of a wait that the caller writes itself, for a thread without a task: as in until(), after
// the same spin. True if a step was done. The first call begins the wait, end_help() ends it.
bool help_once();
void end_help();

// For the workers of light tasks (set_task_library()).
const mh_parked_waits& parked_waits();

}  // namespace mh::wait
