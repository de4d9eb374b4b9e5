// SPDX-License-Identifier: BSD-3-Clause
// The wait loop of blocking calls: polls for the caller's message, and helps other ranks meanwhile.
//
// until(done) returns when done() is true. While done() is false, the rank does the first of these
// steps that finds work, and calls done() after each step:
//   - progress of our own protocol: resends, RTS headers that have landed in receive buffers,
//     pieces to and from other nodes;
//   - a chunk of a message to or from this rank;
//   - lending its core to the process at the other end of a message to or from this rank;
//   - help for another rank: a chunk of its job (steal::Thief: ranks of this NUMA node first) or of
//     its one-sided operation, or the loan of this core for a unit;
//   - a task that the waiting thread has offered (TaskOffer);
//   - a pause; with more ranks than cores, the thread yields.
//
// A step is at most a chunk (about 100 us), a unit on a lent core (lend/unit_length.hpp), or a
// task. A rank therefore sees its own message at most a step late. done() must drive the MPI
// library, as a failed MPI_Test does.
//
// Some waits never help and do not use this loop: for locks, for a helper or thief that is already
// at work, and in LCI (libs/lci).
//
// Threads: any number of threads of a rank may wait; a single thread at a time helps. A thread on a
// core lent by another rank (a *guest*) gives the core back if its wait lasts, and helps no rank.
// If the waiting threads outnumber the rank's cores, one of them, the *server*, polls for all in
// until_shared(), and the others sleep (threads/election.hpp). Light tasks park in until_shared()
// (parking.hpp).
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "wait/parking.hpp"
#include "wait/predicate.hpp"

namespace mh::wait {

// The actions of a rank while it waits, which the wait loop calls. The rooms of the source above
// this room implement and install them; the wait loop knows none of those rooms.
class WaitActions {
 public:
  virtual ~WaitActions() = default;
  // Advances our own protocol: resends, RTS headers that have landed, pieces of messages between
  // nodes. Never blocks.
  virtual void progress() = 0;
  // Copies at most one chunk of a message that this rank receives or sends. True: a chunk was
  // moved.
  virtual bool copy_own_chunk() = 0;
  // Lends the core, for a unit, to the rank at the other end of a message to or from this rank, if
  // that rank is late with it. True: the core was lent.
  virtual bool lend_to_partner() = 0;
  // Does copy_own_chunk() and lend_to_partner() for a nested wait: the thread that performs this
  // rank's actions waits within one of them. True: a chunk was moved or the core lent. Never
  // blocks.
  virtual bool copy_own_chunk_nested() = 0;
  // Helps another rank with one chunk, or lends it this core for one unit. True: something was
  // done.
  virtual bool help() = 0;
  // Ends what the wait began for other ranks, such as a loan of the core. Called at the end of a
  // wait, and before an offered task runs.
  virtual void end() = 0;
  // Sets whether the rank is idle: it waits, and holds no chunk. Thieves count the ranks that are
  // not idle.
  virtual void set_idle(bool now) = 0;
  // Publishes, for `mh top`, that the wait which began at `since` (ticks) goes on after its spin.
  // 0: the wait is over.
  virtual void set_waiting(std::uint64_t since) = 0;
  // Counts a wait of this rank that has ended after `waited` ticks, which include the copying of
  // messages in the wait.
  virtual void count_wait(std::uint64_t waited) = 0;
  // Called after a step that found no work, before the wait's condition is tested again. In a loop
  // that the user has marked and whose threads call MPI in turns, the thread passes its turn on.
  virtual void between_polls() = 0;
  // True if the calling thread runs on a core lent by another rank, and so helps no other rank.
  virtual bool is_guest() = 0;
  // True if the calling thread has kept the core that another rank has lent it for longer than a
  // unit.
  virtual bool is_overdue() = 0;
  // Gives the core on which the calling thread, a guest, runs back to the rank that lent it. A
  // second call in a unit has no effect.
  virtual void return_core() = 0;
};

struct WaitRules {
  // Bounds, in ticks, of the time for which a wait spins before the rank helps others.
  std::uint64_t least_spin = 0;
  std::uint64_t most_spin = 0;
  // There are more ranks than cores (MH_CORES, if set, is the number of cores): a wait yields at
  // once, and helps no rank.
  bool oversubscribed = false;
  // More ranks than CPUs that they may really use, whatever MH_CORES says: a wait yields once it
  // outlasts its spin.
  bool yields = false;
  // Number of cores that the threads of this rank share; 0: its threads never wait together
  // (until_shared()).
  std::uint32_t cores = 0;
};

// Tasks of the program that a thread may run in its own waits: `has` tells whether the collection
// `of` has a task, and `run` runs one.
struct TaskOffer {
  int (*has)(void* of) = nullptr;
  void (*run)(void* of) = nullptr;
  void* of = nullptr;
};
// Sets the tasks that the calling thread offers ({}: none), and returns its previous offer. A
// thread that offers tasks polls for its messages itself, even if another thread polls for all
// others.
TaskOffer offer_tasks(const TaskOffer& tasks);

// Tells whether offered tasks may run in a wait. They may only if the waiting thread holds no lock,
// and has left nothing half done that another MPI call of the same thread could meet.
enum class OfferedTasks : std::uint8_t { none, may_run };

// Sets the actions and rules of all waits of this process. Called before the first wait in which
// the rank shall help, and with nullptr before `actions` is destroyed.
void install_actions(WaitActions* actions, const WaitRules& rules);
// cores() and is_oversubscribed() return values of the WaitRules in force.
std::uint32_t cores();
bool is_oversubscribed();

namespace detail {

void until_slow(Predicate done, OfferedTasks tasks);
void until_shared_slow(Predicate done);
bool help_if_polling(Predicate poll);

}  // namespace detail

// Number of calls of done() in a wait before any bookkeeping, so that a short wait costs these
// calls alone. A rank that may have chunks of its own messages to move uses kFewPolls. Any other
// rank uses kManyPolls, a microsecond or two of failed tests, because its wait may be for one of
// many short messages in turn, whose latency counts.
inline constexpr int kFewPolls = 8;
inline constexpr int kManyPolls = 40;

template <class Done>
inline void until(Done&& done, int polls = kFewPolls, OfferedTasks tasks = OfferedTasks::none) {
  for (int poll = 0; poll < polls; ++poll) {
    if (done()) return;
  }
  detail::until_slow(detail::Predicate(done), tasks);
}

// Waits as until() does, for an MPI call of the program. Another thread of this rank may call
// done() while the caller sleeps. done() must therefore not depend on the calling thread, must not
// wait, and must not need a lock that the caller holds. After done() has returned true, no thread
// calls done() again. Tasks that the thread has offered may run. If the caller is a light task, its
// worker runs other tasks meanwhile, and the task may continue on another thread.
template <class Done>
inline void until_shared(Done&& done, int polls = kFewPolls) {
  if (parking::is_in_task()) [[unlikely]]
    polls = 0;
  for (int poll = 0; poll < polls; ++poll) {
    if (done()) return;
  }
  detail::until_shared_slow(detail::Predicate(done));
}

// From now on only the waiting thread itself calls done() of its wait in until_shared(), so each
// thread polls for itself.
void share_no_waits();

// To be called after a failed MPI_Test, MPI_Iprobe or the like. Makes progress of our own protocol
// and copies at most one chunk of the rank's own messages, so a program that polls is not slower
// than a program that waits.
void note_failed_poll();

// Called after a failed poll, once in PollingStretch::kPolls failed polls. If the program has done
// nothing but poll for a while, the rank helps others with one step, as in a wait. `poll` polls
// once more, and is true if the poll succeeded. Returns true as soon as poll() has been true, and
// does not call poll() again. For programs in which one thread calls MPI.
template <class Poll>
inline bool help_if_polling(Poll&& poll) {
  return detail::help_if_polling(detail::Predicate(poll));
}

// Does one step of a wait whose loop the caller writes itself, for a thread that runs no light
// task. The step is that of until(), after the same spin. True if the step found work. The first
// call begins the wait, end_help() ends it.
bool help_once();
void end_help();

// The functions that the workers of light tasks call while tasks are parked (base/light_tasks.h).
const mh_parked_waits& parked_waits();

}  // namespace mh::wait
