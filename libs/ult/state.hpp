// SPDX-License-Identifier: BSD-3-Clause
// The state of a task: who may run it, and the one signal that is kept.
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
// A bit of a BitSet only says "look at this task". What decides is one compare-and-swap here:
// whoever moves the word to `running` runs the task, nobody else does. So owner, thieves and
// signallers may all hold bits for the same task, old and new, and it still runs once.
//
// The stolen task that is signalled while it runs: the finder of its bit moves running to
// signalled and drops the bit; block() finds that and leaves the task ready. So no signal is lost
// between the last look at a condition and the moment at which the task is really off its stack.
//
// Every transition is a read-modify-write with release and acquire, also one that changes nothing:
// what a signaller wrote before its signal is seen by the task when it runs next.
//
// Where nobody steals, the worker that is a task's home is the only one to touch its state; then
// (alone) the same transitions are plain loads and stores.
//
// A signal is used up by the next run of its task, whatever the task ran for. Two signals before
// that are one. So a task may wake without a signal meant for that wait: conditions are checked in
// a loop.
#pragma once

#include <atomic>
#include <cstdint>

namespace mh::ult {

enum class Phase : std::uint32_t {
  free,       // no task; a signal is dropped
  ready,      // may be run by whoever claims it
  running,    // runs, or is on its way off its stack
  signalled,  // the same, and must be run once more
  blocked,    // off its stack, waits for a signal
};

template <class A>
class State {
 public:
  // `alone`: nobody steals. Fixed for life, because who holds an old bit may read it at any time.
  explicit State(bool alone = false) : alone_(alone) {}

  // Whoever found a bit in an OwnBits: such bits may be old, so a blocked task stays so.
  bool claim_ready() {
    return word_.load(std::memory_order_relaxed) == Phase::ready &&
           move(Phase::ready, Phase::running);
  }

  // Whoever took a bit out of `signals`: the bit is a signal (or a first run). True: the caller
  // runs the task. False: it runs already and now knows of the signal, or it is no more.
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

  // A signaller on the task's own worker, instead of a bit. True: it was blocked and is ready now;
  // the caller publishes it.
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

  // Whoever ended what the task waits for: run it at once. False: it is not off its stack yet.
  bool resume() {
    return word_.load(std::memory_order_relaxed) == Phase::blocked &&
           move(Phase::blocked, Phase::running);
  }

  // The worker that the task ran on, once the task is off its stack. False: there was a signal; the
  // task is ready and the caller publishes it.
  bool block() {
    if (move(Phase::running, Phase::blocked)) return true;
    make_ready();
    return false;
  }

  // Its maker, or the worker that it ran on once it is off its stack. The caller publishes it. An
  // exchange, because a finder's move to `signalled` must be read, not overwritten.
  void make_ready() {
    if (alone_) {
      word_.store(Phase::ready, std::memory_order_release);
    } else {
      word_.exchange(Phase::ready, std::memory_order_acq_rel);
    }
  }
  // Its maker, before anyone else knows of it.
  void start_ready() { word_.store(Phase::ready, std::memory_order_release); }

  // The task itself: true if there was a signal, which is used up.
  bool consume() {
    return word_.load(std::memory_order_relaxed) == Phase::signalled &&
           move(Phase::signalled, Phase::running);
  }

  // The task itself, at its end.
  void end() { word_.store(Phase::free, std::memory_order_release); }

  // For looking only.
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

// A signal to a task that may migrate meanwhile. `send(place)` sets the task's bit in that place, a
// read-modify-write. Then the location is read again: a migration writes it, and the task looks at
// its condition after that. So either the new location is seen here, and gets a bit as well, or the
// task sees the condition.
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
