// SPDX-License-Identifier: BSD-3-Clause
// THE wait loop. Every blocking call of every room ends here, and nowhere else does a rank wait.
//
// until(done) returns when done() is true. While it is not, the rank does, in this order and
// looking at done() after every step: progress that is ours (messages to send again), a chunk of a
// job of its own that somebody waits for, its core to the other end of such a message, a chunk of
// another rank's job (steal::Thief: same NUMA node first), a task that the waiting thread has
// offered (Offer), and else it backs off. A step is at most one chunk, about 100 µs, or one unit of
// a lent core (lend/unit_length.hpp), or a task, so a rank is late for its own message by one step
// at most. done() itself must drive the MPI library (a failed MPI_Test does).
//
// Thread-safe: any number of threads of a rank may wait; one at a time helps. A thread that is
// itself a guest on another rank's core gives that back where its wait lasts, and helps nobody.
// Where threads that wait outnumber the rank's cores, one of them, the server, looks at the
// messages of all, and the others sleep until theirs is there (threads/election.hpp):
// until_shared().
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/clock.hpp"

namespace mh::wait {

// What a rank can do while it waits. The rooms above plug themselves in; the loop knows none of
// them.
class Work {
 public:
  virtual ~Work() = default;
  // Progress of our own protocol. Never blocks.
  virtual void progress() = 0;
  // At most one chunk of a job somebody waits for on our account. True if a chunk was moved.
  virtual bool own() = 0;
  // The core, for a unit, to a rank whose process is late with a message to or from this one. True
  // if it went there.
  virtual bool lend_to_partner() = 0;
  // What others wait for, where the thread that does this rank's work has to wait within that. True
  // if a chunk was moved or the core lent. Waits for nothing.
  virtual bool own_within_own() = 0;
  // At most one chunk of another rank's job. True if a chunk was moved.
  virtual bool help() = 0;
  // A wait that took a while is over: what has been started for others is ended.
  virtual void end() = 0;
  // The rank is (not) idle: waiting with nothing in hand. Read by thieves that count active ranks.
  virtual void idle(bool now) = 0;
  // A wait has ended after `waited` ticks, copying included.
  virtual void account(std::uint64_t waited) = 0;
  // Before another look of a wait: where threads of this rank take turns, others have theirs.
  virtual void between_looks() = 0;
  // The calling thread works on a core that another rank has lent. It does nothing for others.
  virtual bool is_guest() = 0;
  // ... for longer than it should.
  virtual bool is_overdue() = 0;
  // ... and gives the core back, because it has to wait. May be called again.
  virtual void go_home() = 0;
};

struct Rules {
  std::uint64_t least_spin = 0;  // ticks a wait spins before its first unit, at least and at most
  std::uint64_t most_spin = 0;
  bool oversubscribed = false;  // more ranks than cores: a wait yields at once, and helps nobody
  bool yields = false;          // ... than cores that are really there: a wait that lasts yields
  // Cores that the threads of this rank have between them; 0: its threads never wait together.
  std::uint32_t cores = 0;
};

// Tasks that a thread may run in its own waits.
struct Offer {
  int (*has)(void* of) = nullptr;
  void (*run)(void* of) = nullptr;
  void* of = nullptr;
};
// The calling thread offers these from now on, or, with {}, none. Returns what it has offered
// before. Such a thread looks for its messages itself, whoever waits beside it.
Offer offer(const Offer& tasks);

// Whether offered tasks may run in a wait: where nothing is locked, and nothing half done, that
// another call of the same thread could meet.
enum class Tasks : std::uint8_t { none, may_run };

// Called once before the first wait that shall help, and with nullptr before `work` goes away.
void employ(Work* work, const Rules& rules);

namespace detail {

// A done() of unknown type without an allocation.
class Predicate {
 public:
  template <class Done>
  requires(!std::is_same_v<Done, Predicate>) explicit Predicate(Done& done)
      : object_(std::addressof(done)),
        call_([](void* object) -> bool { return (*static_cast<Done*>(object))(); }) {}
  bool operator()() const { return call_(object_); }

 private:
  void* object_;
  bool (*call_)(void*);
};

void until_slow(Predicate done, Tasks tasks);
void until_shared_slow(Predicate done);

}  // namespace detail

// Looks at done() before any bookkeeping starts: a wait that is over by then costs nothing else.
// kFewLooks where this rank may have chunks of its own to move; kManyLooks (a microsecond or two of
// failed tests) where it has none, as in a latency-bound exchange of short messages.
inline constexpr int kFewLooks = 8;
inline constexpr int kManyLooks = 40;

template <class Done>
inline void until(Done&& done, int looks = kFewLooks, Tasks tasks = Tasks::none) {
  for (int look = 0; look < looks; ++look) {
    if (done()) return;
  }
  detail::until_slow(detail::Predicate(done), tasks);
}

// As until(), for a call of the program: done() may be asked by another thread of this rank in
// place of the caller, which sleeps then. So it must not depend on the thread, must not wait
// itself, and what it needs the caller must not hold locked. It is not asked again once it was
// true. Offered tasks may run.
template <class Done>
inline void until_shared(Done&& done, int looks = kFewLooks) {
  for (int look = 0; look < looks; ++look) {
    if (done()) return;
  }
  detail::until_shared_slow(detail::Predicate(done));
}

// From now on done() of until_shared() is asked by its own thread alone.
void share_no_waits();

// A failed MPI_Test, MPI_Iprobe and the like: does progress that is ours and at most one chunk of
// the rank's own jobs, so that a program which polls is not slower than one that waits.
void note_failed_poll();

// A step of a wait that the caller spells out, for a thread without a task of its own: as in
// until(), after the same spin. True if it did something. The first call begins the wait; it lasts
// until end_help().
bool help();
void end_help();

}  // namespace mh::wait
