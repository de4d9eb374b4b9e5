// SPDX-License-Identifier: BSD-3-Clause
#include "wait/wait.hpp"

#include <sched.h>

#include <optional>
#include <utility>

#include "base/atomics.hpp"
#include "base/tuning.hpp"
#include "threads/admission.hpp"
#include "threads/election.hpp"
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

constinit thread_local Offer t_offer;

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

  // One step of the loop. True if a chunk was moved. Without `helps` for this rank alone.
  bool step(bool helps = true) {
    const Hands hands;
    if (!hands) return t_has_hands && g_work->own_within_own();
    if (do_own() || g_work->lend_to_partner()) return true;
    // More ranks than cores: the core belongs to whoever has something of its own to do.
    if (!helps || g_rules.oversubscribed || spins()) return false;
    if (!idle_) {
      idle_ = true;
      g_work->idle(true);
    }
    const bool worked = g_work->help();
    helped_ = helped_ || worked;
    return worked;
  }

  // At most one offered task: after a step that found nothing else. True if there was one. It may
  // wait itself, and nothing of this wait is in its way.
  bool run_task() {
    if (t_offer.run == nullptr || t_has_hands || spins() || t_offer.has(t_offer.of) == 0) {
      return false;
    }
    const std::uint64_t begin = ticks();
    stop_idling();
    t_offer.run(t_offer.of);
    in_tasks_ += ticks() - begin;
    helped_ = true;
    return true;
  }

  // Between two steps. With more ranks than cores, the rank that this one waits for may have to run
  // here. Else the core is kept, as the MPI library keeps it: whatever got it, were it the least
  // important job, would have it for a time slice, a hundred times as long as a message takes.
  void back_off() {
    if (g_rules.oversubscribed || (g_rules.yields && !spins())) {
      sched_yield();
    } else {
      relax();
    }
  }

  void end() {
    const std::uint64_t length = ticks() - begin_ - in_tasks_;
    stop_idling();
    if (helped_) {
      idleness().helped();
    } else {
      idleness().ended_alone(length);
    }
    g_work->account(length);
  }

 private:
  void stop_idling() {
    if (std::exchange(idle_, false)) g_work->idle(false);
    // Whoever has the hands now ends it as well.
    if (const Hands hands; hands) g_work->end();
  }
  [[nodiscard]] bool spins() {
    spins_ = spins_ && ticks() < spin_ends_;
    return spins_;
  }

  std::uint64_t begin_;
  std::uint64_t spin_ends_;
  std::uint64_t in_tasks_ = 0;  // the program's own work, so no part of the wait
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

// --- Threads that wait together ---

using Election = threads::Election<Machine>;

// A thread that waits, as the one that looks for all sees it.
struct Waiter : threads::Seat<Machine> {
  explicit Waiter(detail::Predicate predicate) : done(predicate) {}
  detail::Predicate done;
};

Election g_election;
threads::Admission g_admission;  // of the server
// A hint, relaxed: a wait that sees it late is shared still.
std::atomic<bool> g_shares_waits{false};
// Threads in waits that last. relaxed: where one more or less is seen, a thread looks for itself
// that could sleep, or the other way round.
std::atomic<std::uint32_t> g_waiting{0};
// Threads that are out no longer, since the server has counted them. relaxed: a count, that no data
// goes with.
std::atomic<std::uint32_t> g_back{0};

constinit thread_local bool t_serves = false;
constinit thread_local bool t_is_out = false;  // its last wait that lasted has ended

class Counted {
 public:
  Counted() : waiting_(g_waiting.fetch_add(1, std::memory_order_relaxed) + 1) {}
  ~Counted() { g_waiting.fetch_sub(1, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  // Of those that wait now, each can have a core.
  [[nodiscard]] bool all_have_cores() const { return waiting_ <= g_rules.cores; }

 private:
  std::uint32_t waiting_;
};

// The waits of others: some that are over may end now.
void look_for_others() {
  const std::uint64_t now = ticks();
  g_election.collect();
  bool is_fresh = g_election.look(
      [](threads::Seat<Machine>& seat) { return static_cast<Waiter&>(seat).done(); });
  while (g_election.has_ready()) {
    const auto whose = g_admission.next(now);
    if (whose == threads::Admission::Whose::nobodys) return;
    const bool newest = whose == threads::Admission::Whose::newest && is_fresh;
    newest ? g_election.tell_newest() : g_election.tell_oldest();
    is_fresh = false;
    g_admission.ended(now);
  }
}

void let_others_run() {
  const std::uint64_t before = ticks();
  if (!g_admission.should_yield(before)) return relax();
  sched_yield();
  g_admission.yielded(before, ticks());
}

// By the server.
void count_those_back() {
  if (g_back.load(std::memory_order_relaxed) == 0) return;
  g_admission.came(g_back.exchange(0, std::memory_order_relaxed), ticks());
}

// Other threads of this rank sit, or are out and may want the server's core.
bool is_crowded() {
  count_those_back();
  return g_election.has_waiters() || g_admission.any_out(ticks());
}

// As the server, until its own wait is over.
void serve(detail::Predicate done) {
  t_serves = true;
  const std::uint64_t begin = ticks();
  g_admission.began(begin);
  WaitScope scope(begin);
  while (!done()) {
    const bool crowded = is_crowded();
    if (crowded) look_for_others();
    // The core is not idle while another thread of this rank may run there.
    if (scope.step(!crowded || g_admission.has_room())) continue;
    g_work->between_looks();
    crowded ? let_others_run() : scope.back_off();
  }
  scope.end();
  count_those_back();
  g_admission.ended(ticks());
  t_serves = false;
  g_election.leave([] { g_admission.ended(ticks()); });
}

// Another thread serves. Its own message is what the thread that runs gets soonest, if it comes.
bool comes_soon(detail::Predicate done, std::uint64_t begin) {
  const std::uint64_t patience_ends = begin + ticks_from_ns(tuning::kSitDownNs);
  while (ticks() < patience_ends) {
    if (done()) return true;
  }
  return false;
}

// The caller sits or serves.
void come_back() {
  if (std::exchange(t_is_out, false)) g_back.fetch_add(1, std::memory_order_relaxed);
}

// A wait with others, each of which does without a core if there are more of them than cores.
void until_shared_by_threads(detail::Predicate done) {
  const std::uint64_t begin = ticks();
  const Counted counted;
  if (!g_election.try_serve()) {
    if (counted.all_have_cores()) return detail::until_slow(done, Tasks::none);
    if (comes_soon(done, begin)) return;
    come_back();
    Waiter waiter(done);
    if (!g_election.enter(waiter) && Election::await(waiter) == threads::Seated::told) {
      t_is_out = true;
      return g_work->account(ticks() - begin);
    }
  } else {
    come_back();
  }
  serve(done);
  t_is_out = true;
}

// A wait that its caller spells out (help()).
constinit thread_local std::optional<WaitScope> t_spelled_out;

}  // namespace

Offer offer(const Offer& tasks) { return std::exchange(t_offer, tasks); }

void employ(Work* work, const Rules& rules) {
  g_rules = rules;
  g_admission.set({.room = rules.cores > 1 ? rules.cores - 1 : 1,
                   .patience = ticks_from_ns(tuning::kOneMoreThreadNs),
                   .alone = ticks_from_ns(tuning::kCoreIsIdleNs),
                   .yield = ticks_from_ns(tuning::kYieldNs)});
  g_shares_waits.store(work != nullptr && rules.cores != 0, std::memory_order_relaxed);
  ++g_employments;
  g_work = work;
}

void share_no_waits() { g_shares_waits.store(false, std::memory_order_relaxed); }

namespace detail {

void until_slow(Predicate done, Tasks tasks) {
  // Before a job's start and after its end nothing says whether each rank has a core.
  if (g_work == nullptr) {
    while (!done()) sched_yield();
    return;
  }
  if (g_work->is_guest()) return until_as_guest(done);
  WaitScope scope(ticks());
  while (!done()) {
    if (scope.step()) continue;
    if (tasks == Tasks::may_run && scope.run_task()) continue;
    g_work->between_looks();
    scope.back_off();
  }
  scope.end();
}

void until_shared_slow(Predicate done) {
  const bool shares = g_shares_waits.load(std::memory_order_relaxed) && !t_has_hands && !t_serves;
  const bool alone = !shares || t_offer.run != nullptr;
  if (alone || g_work->is_guest()) return until_slow(done, Tasks::may_run);
  until_shared_by_threads(done);
}

}  // namespace detail

void note_failed_poll() {
  if (g_work == nullptr) return;
  if (const Hands hands; hands) do_own();
  if (!g_work->is_guest() || !g_work->is_overdue()) return;
  g_work->go_home();
  sched_yield();
}

bool help() {
  if (g_work == nullptr || t_has_hands || g_work->is_guest()) return false;
  if (!t_spelled_out) t_spelled_out.emplace(ticks());
  const bool worked = t_spelled_out->step();
  if (!worked) g_work->between_looks();
  return worked;
}

void end_help() {
  if (t_spelled_out && g_work != nullptr) t_spelled_out->end();
  t_spelled_out.reset();
}

}  // namespace mh::wait
