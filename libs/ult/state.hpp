// SPDX-License-Identifier: BSD-3-Clause
// The state of a task: the right to run it, and one pending signal.
//
//            claim                block()
//   ready ----------> running ---------------> blocked
//     ^                |   ^ \                   |  |
//     |   make_ready() |   |  \ signal found     |  | claim_signalled(), resume()
//     +----------------+   |   v                 |  +-----------> running
//     ^                    | signalled           |
//     |                    +---+ consume()       | nudge()
//     +------------------------------------------+
//
// A bit of a BitSet only says "look at this task". One compare-and-swap on the state decides: the
// worker that moves the word to `running` runs the task. Owner, thieves and signallers may all hold
// bits of the same task, stale or new; still only one worker runs the task at a time.
//
// A stolen task may get a signal while it runs. The worker that finds its bit moves the state from
// running to signalled and drops the bit. block() then fails and leaves the task ready. So no
// signal is lost between the task's last test of its condition and the switch off its stack.
//
// Every transition is a read-modify-write with acquire and release, even if the state stays the
// same. In its next run, the task sees everything that the signaller wrote before the signal.
//
// Without stealing (`alone`), only the worker that is the task's home touches the state. All
// transitions are then plain loads and stores.
//
// The next run of a task uses up its signal, whatever the reason for that run. Two signals before
// that run count as one. A task may therefore wake without a signal meant for its current wait, and
// must test its condition in a loop.
#pragma once

#include <atomic>
#include <cstdint>

namespace mh::ult {

enum class Phase : std::uint32_t {
  free,       // no task; a signal is dropped
  ready,      // any worker that claims the task may run it
  running,    // runs, or is leaving its stack
  signalled,  // like running, and must run once more
  blocked,    // off its stack, waits for a signal
};

template <class A>
class TaskState {
 public:
  // `alone`: the scheduler has stealing off, so plain loads and stores suffice. The value never
  // changes, because a worker with a stale bit of the task may read the value at any time.
  explicit TaskState(bool alone = false) : alone_(alone) {}

  // Called by a worker that found the task's bit in its fresh or started set, or in a victim's
  // (OwnBits). True: the caller runs the task. Such bits may be stale, so a blocked task stays
  // blocked.
  bool claim_ready() {
    return word_.load(std::memory_order_relaxed) == Phase::ready &&
           move(Phase::ready, Phase::running);
  }

  // Called by a worker that took the task's bit out of `signals`, which means a signal or a first
  // run. Also called by a worker that takes the task over from a resting worker
  // (Worker::take_over()). True: the caller runs the task. False: the task runs already and now has
  // the signal, or the slot has no task.
  bool claim_signalled() {
    for (;;) {
      const Phase now = word_.load(std::memory_order_relaxed);
      switch (now) {
        case Phase::ready:
        case Phase::blocked:
          if (move(now, Phase::running)) return true;
          break;
        case Phase::running:
        case Phase::signalled:
          if (move(now, Phase::signalled)) return false;
          break;
        case Phase::free:
          return false;
      }
    }
  }

  // Called by a signaller on the task's home worker, which needs no bit for the signal. True: the
  // task was blocked and is ready now; the caller publishes the task.
  bool nudge() {
    for (;;) {
      const Phase now = word_.load(std::memory_order_relaxed);
      switch (now) {
        case Phase::blocked:
          if (move(now, Phase::ready)) return true;
          break;
        case Phase::running:
          if (move(now, Phase::signalled)) return false;
          break;
        case Phase::ready:
        case Phase::signalled:
          if (move(now, now)) return false;
          break;
        case Phase::free:
          return false;
      }
    }
  }

  // Called by the worker on which the task ended for which this task waits. True: the caller runs
  // this task at once. False: this task is not blocked, for example still on its stack.
  bool resume() {
    return word_.load(std::memory_order_relaxed) == Phase::blocked &&
           move(Phase::blocked, Phase::running);
  }

  // Called by the worker that ran the task, once the task is off its stack in wait(). True: the
  // task is blocked. False: the task had a signal and is ready; the caller publishes the task.
  bool block() {
    if (move(Phase::running, Phase::blocked)) return true;
    make_ready();
    return false;
  }

  // Called by the worker that claimed or ran the task, while the task is off its stack. The caller
  // publishes the task. The exchange reads a concurrent move to `signalled`, and so acquires what
  // that signaller wrote.
  void make_ready() {
    if (alone_) {
      word_.store(Phase::ready, std::memory_order_release);
    } else {
      word_.exchange(Phase::ready, std::memory_order_acq_rel);
    }
  }
  // Called by the spawner of a new task, before any other thread knows the task.
  void start_ready() { word_.store(Phase::ready, std::memory_order_release); }

  // Called by the running task, when it is about to wait. True: the task had a signal, which is now
  // used up, so the task does not block.
  bool consume() {
    return word_.load(std::memory_order_relaxed) == Phase::signalled &&
           move(Phase::signalled, Phase::running);
  }

  // Called by the worker that runs the task, at the task's end.
  void end() { word_.store(Phase::free, std::memory_order_release); }

  // Returns the state at some moment. relaxed: the caller must claim the task before it relies on
  // the state.
  [[nodiscard]] Phase phase() const { return word_.load(std::memory_order_relaxed); }

 private:
  bool move(Phase from, Phase to) {
    if (alone_) {
      if (word_.load(std::memory_order_relaxed) != from) return false;
      word_.store(to, std::memory_order_relaxed);
      return true;
    }
    return word_.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
  }

  typename A::template Atomic<Phase> word_{Phase::free};
  const bool alone_;
};

// Signals a task that may migrate meanwhile. `send(location)` sets the task's bit at that location
// with a read-modify-write. Then this function reads the location again. A migration writes the
// location, and the task tests its condition after the migration. Either this function sees the new
// location and sends there as well, or the task sees the condition.
template <class Location, class Send>
void send_signal(const Location& location, Send send) {
  auto at = location.load(std::memory_order_seq_cst);
  for (;;) {
    send(at);
    const auto now = location.load(std::memory_order_seq_cst);
    if (now == at) return;
    at = now;
  }
}

}  // namespace mh::ult
