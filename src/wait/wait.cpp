// SPDX-License-Identifier: BSD-3-Clause
#include "wait/wait.hpp"

#include <sched.h>

#include "wait/idleness.hpp"

namespace mh::wait {
namespace {

Work* g_work = nullptr;
Rules g_rules;
int g_employments = 0;  // counts employ(): what a thread has learned holds for one set of rules

// One thread of a rank helps at a time: the thief's scratch and victim state are the rank's.
// Taken with acquire, given back with release: the next holder sees the state the last one left.
std::atomic_flag g_hands = ATOMIC_FLAG_INIT;

constinit thread_local bool t_has_hands = false;

class Hands {
 public:
  Hands() : held_(!g_hands.test_and_set(std::memory_order_acquire)) {
    if (held_) t_has_hands = true;
  }
  ~Hands() {
    if (!held_) return;
    t_has_hands = false;
    g_hands.clear(std::memory_order_release);
  }
  Hands(const Hands&) = delete;
  Hands& operator=(const Hands&) = delete;
  explicit operator bool() const { return held_; }

 private:
  bool held_;
};

Idleness& idleness() {
  thread_local Idleness learned(0, 0);
  thread_local int employment = 0;
  if (employment != g_employments) {
    learned = Idleness(g_rules.least_spin, g_rules.most_spin);
    employment = g_employments;
  }
  return learned;
}

// What this rank has to do in any case. True if a chunk was moved. With the hands only.
bool do_own() {
  g_work->progress();
  return g_work->own();
}

// One wait: when it began, where its time went.
class WaitScope {
 public:
  explicit WaitScope(std::uint64_t now) : begin_(now), spin_ends_(now + idleness().spin()) {}

  // One step of the loop. True if a chunk was moved.
  bool step() {
    const Hands hands;
    if (!hands) return t_has_hands && g_work->own_within_own();
    if (do_own() || g_work->lend_to_partner()) return true;
    // More ranks than cores: the core belongs to whoever has something of its own to do.
    if (g_rules.oversubscribed || spins()) return false;
    if (!idle_) {
      idle_ = true;
      g_work->idle(true);
    }
    const bool worked = g_work->help();
    helped_ = helped_ || worked;
    return worked;
  }

  // Between two steps. A wait that lasts leaves the core to whatever else may run there: the rank
  // that this one waits for, a thread of the program, another job. Where nothing does, the look at
  // done() comes half a microsecond later.
  void back_off() {
    if (g_rules.oversubscribed || !spins()) {
      sched_yield();
    } else {
      relax();
    }
  }

  void end() {
    const std::uint64_t length = ticks() - begin_;
    if (idle_) g_work->idle(false);
    // Whoever has the hands now ends it as well.
    if (const Hands hands; hands) g_work->end();
    if (helped_) {
      idleness().helped();
    } else {
      idleness().ended_alone(length);
    }
    g_work->account(length);
  }

 private:
  [[nodiscard]] bool spins() {
    spins_ = spins_ && ticks() < spin_ends_;
    return spins_;
  }

  std::uint64_t begin_;
  std::uint64_t spin_ends_;
  bool spins_ = true;
  bool helped_ = false;
  bool idle_ = false;
};

// A wait of a thread on a lent core. It is not the rank's: that works elsewhere meanwhile.
void until_as_guest(detail::Predicate done) {
  const std::uint64_t patience_ends = ticks() + g_rules.least_spin;
  bool home = false;
  while (!done()) {
    if (const Hands hands; hands && do_own()) continue;
    g_work->between_looks();
    if (home) {
      sched_yield();  // the core is now the owner's, who has work
    } else if (ticks() < patience_ends) {
      relax();
    } else {
      g_work->go_home();
      home = true;
    }
  }
}

}  // namespace

void employ(Work* work, const Rules& rules) {
  g_rules = rules;
  ++g_employments;
  g_work = work;
}

namespace detail {

void until_slow(Predicate done) {
  if (g_work == nullptr) {
    while (!done()) relax();
    return;
  }
  if (g_work->is_guest()) return until_as_guest(done);
  WaitScope scope(ticks());
  while (!done()) {
    if (scope.step()) continue;
    g_work->between_looks();
    scope.back_off();
  }
  scope.end();
}

}  // namespace detail

void polled_in_vain() {
  if (g_work == nullptr) return;
  if (const Hands hands; hands) do_own();
  if (!g_work->is_guest() || !g_work->is_overdue()) return;
  g_work->go_home();
  sched_yield();
}

}  // namespace mh::wait
