// SPDX-License-Identifier: BSD-3-Clause
#include "wait/wait.hpp"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/atomics.hpp"
#include "base/emulated.hpp"
#include "base/tuning.hpp"
#include "observe/trace.hpp"
#include "threads/admission.hpp"
#include "threads/election.hpp"
#include "wait/adaptive_spin.hpp"
#include "wait/polling.hpp"

namespace mh::wait {
namespace {

using ThreadElection = threads::Election<RealAtomics>;

// The state of the wait loop that all threads of this process share.
struct RankWaits {
  // The actions of the wait loop. Set by install_actions() while no thread waits.
  WaitActions* actions = nullptr;
  WaitRules rules;
  // Number of calls of install_actions(). The spin that a thread has learned (AdaptiveSpin) holds
  // for the rules (WaitRules) of one such call.
  int installations = 0;
  // Held by the one thread of this rank that performs a step of the wait loop. acquire/release: the
  // next holder sees the state that the actions keep between two steps.
  std::atomic_flag help_lock = ATOMIC_FLAG_INIT;

  // Elects the server, which polls for the waiting threads if they outnumber the rank's cores.
  ThreadElection election;
  threads::WaitAdmission admission;  // used by the server only
  // True if any thread of this rank may test the condition of a wait in until_shared(). relaxed: a
  // wait that reads a stale true is shared, as if it had begun earlier.
  std::atomic<bool> shares{false};
  // Number of threads in until_shared() whose waits have outlasted their first polls. relaxed: a
  // thread that sees a stale count polls although it could sleep, or the reverse.
  std::atomic<std::uint32_t> waiting{0};
  // Number of threads that have come back from the program and begun to sit or serve again
  // (election.hpp) since the server last counted. relaxed: no data goes with the count.
  std::atomic<std::uint32_t> back{0};
};
RankWaits g_waits;

constinit thread_local bool t_has_help_lock = false;

constinit thread_local TaskOffer t_offer;

// Tries to take help_lock. False: some thread of this rank, perhaps the calling one, holds it.
class HelpLock {
 public:
  HelpLock() : held_(!g_waits.help_lock.test_and_set(std::memory_order_acquire)) {
    if (held_) t_has_help_lock = true;
  }
  ~HelpLock() {
    if (!held_) return;
    t_has_help_lock = false;
    g_waits.help_lock.clear(std::memory_order_release);
  }
  HelpLock(const HelpLock&) = delete;
  HelpLock& operator=(const HelpLock&) = delete;
  explicit operator bool() const { return held_; }

 private:
  bool held_;
};

AdaptiveSpin& thread_spin() {
  thread_local AdaptiveSpin learned(0, 0);
  thread_local int installation = 0;
  if (installation != g_waits.installations) {
    learned = AdaptiveSpin(g_waits.rules.least_spin, g_waits.rules.most_spin);
    installation = g_waits.installations;
  }
  return learned;
}

// Advances this rank's own protocol, then moves a chunk of a message that the rank receives or
// sends. True if a chunk was moved. The caller holds help_lock.
bool do_own_duties() {
  g_waits.actions->progress();
  return g_waits.actions->copy_own_chunk();
}

// A wait of the calling thread in the wait loop. Performs its steps, and measures its length
// without the time spent in tasks that the program has offered.
class WaitScope {
 public:
  explicit WaitScope(std::uint64_t now) : WaitScope(now, thread_spin().length()) {}
  WaitScope(std::uint64_t now, std::uint64_t spin) : begin_(now), spin_ends_(now + spin) {}

  // Does one step of the wait loop. True if the step found work. Without `helps` the rank does only
  // its own work, and lends its core only for a message of its own.
  bool step(bool helps = true) {
    const HelpLock lock;
    if (!lock) return t_has_help_lock && g_waits.actions->copy_own_chunk_nested();
    const bool spun = !spins();
    if (spun && !std::exchange(lasts_, true)) g_waits.actions->set_waiting(begin_ + in_tasks_);
    if (do_own_duties() || g_waits.actions->lend_to_partner()) return true;
    // With more ranks than cores, this core is for a rank with work of its own: no rank is helped.
    if (!helps || g_waits.rules.oversubscribed || !spun) return false;
    if (!idle_) {
      idle_ = true;
      g_waits.actions->set_idle(true);
    }
    const bool worked = g_waits.actions->help();
    helped_ = helped_ || worked;
    return worked;
  }

  // Runs at most one task that this thread offers, after a step that found nothing else. True if a
  // task ran. The task may wait in MPI, so the calling thread does not hold help_lock meanwhile.
  bool run_task() {
    if (t_offer.run == nullptr || t_has_help_lock || spins() || t_offer.has(t_offer.of) == 0) {
      return false;
    }
    const std::uint64_t begin = ticks();
    stop_idling();
    t_offer.run(t_offer.of);
    const std::uint64_t spent = ticks() - begin;
    in_tasks_ += spent;
    observe::add_to_trace({.begin = begin, .extent = spent, .kind = observe::EventKind::task});
    helped_ = true;
    return true;
  }

  // Pauses between two steps of the wait loop. With more ranks than cores, the awaited rank may
  // have to run on this core, so the thread yields. Otherwise the thread keeps the core, as the MPI
  // library does: if it yielded, a process of another program would get the core for a time slice,
  // a hundred times the latency of a message.
  void back_off() {
    if (emulated::pause()) return;
    if (g_waits.rules.oversubscribed || (g_waits.rules.yields && !spins())) {
      sched_yield();
    } else {
      spin_pause();
    }
  }

  void end() {
    const std::uint64_t length = ticks() - begin_ - in_tasks_;
    stop_idling();
    if (helped_) {
      thread_spin().helped();
    } else if (spin_ends_ != begin_) {
      thread_spin().ended_alone(length);
    }
    g_waits.actions->count_wait(length);
  }

 private:
  void stop_idling() {
    if (std::exchange(lasts_, false)) g_waits.actions->set_waiting(0);
    if (std::exchange(idle_, false)) g_waits.actions->set_idle(false);
    // Ends help for other ranks, such as a loan of this core. If another thread holds the help
    // lock, that thread calls actions->end() at the end of its own wait.
    if (const HelpLock lock; lock) g_waits.actions->end();
  }
  [[nodiscard]] bool spins() {
    spins_ = spins_ && ticks() < spin_ends_;
    return spins_;
  }

  std::uint64_t begin_;
  std::uint64_t spin_ends_;
  std::uint64_t in_tasks_ = 0;  // ticks spent in offered tasks, not part of the wait
  bool spins_ = true;
  bool lasts_ = false;  // set_waiting() has announced this wait
  bool helped_ = false;
  bool idle_ = false;
};

// The wait of a guest, a helper's thread on a core lent by another rank. If the wait outlasts the
// shortest spin, the guest returns the core to its lender.
void until_as_guest(detail::Predicate done) {
  const std::uint64_t patience_ends = ticks() + g_waits.rules.least_spin;
  bool has_returned_core = false;
  while (!done()) {
    if (const HelpLock lock; lock && do_own_duties()) continue;
    g_waits.actions->between_polls();
    if (emulated::pause()) continue;
    if (has_returned_core) {
      sched_yield();  // the guest is on its owner's cores, which others may need
    } else if (ticks() < patience_ends) {
      spin_pause();
    } else {
      g_waits.actions->return_core();
      has_returned_core = true;
    }
  }
}

// --- Threads that wait together ---

// The seat of a waiting thread, with the condition that the server tests for the thread.
struct SeatedWait : threads::Seat<RealAtomics> {
  explicit SeatedWait(detail::Predicate predicate) : done(predicate) {}
  detail::Predicate done;
};

constinit thread_local bool t_serves = false;
constinit thread_local bool t_is_out = false;  // the last long wait of this thread has ended

class CountedWait {
 public:
  CountedWait() : waiting_(g_waits.waiting.fetch_add(1, std::memory_order_relaxed) + 1) {}
  ~CountedWait() { g_waits.waiting.fetch_sub(1, std::memory_order_relaxed); }
  CountedWait(const CountedWait&) = delete;
  CountedWait& operator=(const CountedWait&) = delete;
  // True if the rank has a core for each of its waiting threads, counted when this wait began.
  [[nodiscard]] bool all_have_cores() const { return waiting_ <= g_waits.rules.cores; }

 private:
  std::uint32_t waiting_;
};

// Called by the server: tests the conditions of the threads that sit while it polls for them, and
// ends those finished waits for which a core is free (WaitAdmission).
void look_for_others() {
  const std::uint64_t now = ticks();
  g_waits.election.collect();
  bool is_fresh = g_waits.election.look(
      [](threads::Seat<RealAtomics>& seat) { return static_cast<SeatedWait&>(seat).done(); });
  while (g_waits.election.has_ready()) {
    const auto next = g_waits.admission.next(now);
    if (next == threads::WaitAdmission::NextWait::none) return;
    const bool newest = next == threads::WaitAdmission::NextWait::newest && is_fresh;
    newest ? g_waits.election.tell_newest() : g_waits.election.tell_oldest();
    is_fresh = false;
    g_waits.admission.ended(now);
  }
}

// Called by the server between two steps of the wait loop, instead of back_off(), if other threads
// of this rank may want its core.
void let_others_run() {
  const std::uint64_t before = ticks();
  if (!g_waits.admission.should_yield(before)) return spin_pause();
  sched_yield();
  g_waits.admission.yielded(before, ticks());
}

// Called by the server: tells WaitAdmission how many threads have come back from the program.
void count_those_back() {
  if (g_waits.back.load(std::memory_order_relaxed) == 0) return;
  g_waits.admission.came(g_waits.back.exchange(0, std::memory_order_relaxed), ticks());
}

// True if other threads of this rank sit (sleep), or have ended a wait and may want this core.
bool is_crowded() {
  count_those_back();
  return g_waits.election.has_waiters() || g_waits.admission.has_threads_out(ticks());
}

// The caller, the server, polls for all waiting threads of this rank until its own wait is over.
void serve_waits(detail::Predicate done) {
  t_serves = true;
  const std::uint64_t begin = ticks();
  g_waits.admission.began(begin);
  WaitScope scope(begin);
  while (!done()) {
    const bool crowded = is_crowded();
    if (crowded) look_for_others();
    // While another thread of this rank may run on the core, the core is not spare for other ranks.
    if (scope.step(!crowded || g_waits.admission.has_free_core())) continue;
    g_waits.actions->between_polls();
    crowded ? let_others_run() : scope.back_off();
  }
  scope.end();
  count_those_back();
  g_waits.admission.ended(ticks());
  t_serves = false;
  g_waits.election.leave([] { g_waits.admission.ended(ticks()); });
}

// Called while another thread of this rank polls for all (the server). The caller polls for its own
// message for a short time before it sleeps, which saves a thread switch if the message comes.
bool comes_soon(detail::Predicate done, std::uint64_t begin) {
  const std::uint64_t patience_ends = begin + ticks_from_ns(tuning::kSitDownNs);
  while (ticks() < patience_ends) {
    if (done()) return true;
  }
  return false;
}

// Counts the calling thread as back from the program if an earlier wait of it has ended.
void come_back() {
  if (std::exchange(t_is_out, false)) g_waits.back.fetch_add(1, std::memory_order_relaxed);
}

// A wait of a rank whose threads may wait together. If the waiting threads outnumber the rank's
// cores, the caller polls for all (serves), or sleeps (sits) while another thread serves.
void until_shared_by_threads(detail::Predicate done) {
  const std::uint64_t begin = ticks();
  const CountedWait counted;
  if (!g_waits.election.try_serve()) {
    if (counted.all_have_cores()) return detail::until_slow(done, OfferedTasks::none);
    if (comes_soon(done, begin)) return;
    come_back();
    SeatedWait waiter(done);
    if (!g_waits.election.enter(waiter) && ThreadElection::await(waiter) == threads::Seated::told) {
      t_is_out = true;
      return g_waits.actions->count_wait(ticks() - begin);
    }
  } else {
    come_back();
  }
  serve_waits(done);
  t_is_out = true;
}

// This thread's wait from help_once() to end_help(), whose loop the caller writes; nothing: none.
constinit thread_local std::optional<WaitScope> t_own_loop_wait;

// --- Help between polls of the program, such as MPI_Test ---

PollingStretch& thread_stretch() {
  thread_local PollingStretch stretch({.longest_period = ticks_from_ns(tuning::kLongestPollNs),
                                       .lasts = ticks_from_ns(tuning::kPollingLastsNs),
                                       .pause = ticks_from_ns(tuning::kPollingPauseNs),
                                       .slack = ticks_from_ns(tuning::kAroundPollNs)});
  return stretch;
}

// Returns the ticks of the fastest of a few failed calls of poll(); 0 if a call succeeded.
std::uint64_t measure_poll(detail::Predicate poll) {
  constexpr int kTries = 4;
  std::uint64_t fastest = UINT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t begin = ticks();
    if (poll()) return 0;
    fastest = std::min(fastest, ticks() - begin);
  }
  return fastest;
}

// Does one step of the wait loop between two polls of the program, without a spin because the rank
// has polled for a while. True if poll() was true after the step.
bool help_between_polls(PollingStretch& stretch, detail::Predicate poll) {
  const std::uint64_t begin = ticks();
  WaitScope scope(begin, 0);
  const bool helped = scope.step();
  const bool came = helped && poll();
  scope.end();
  const std::uint64_t end = ticks();
  if (!helped) stretch.rest(end - begin, end);
  return came;
}

// --- Waits of parked light tasks ---

void until_in_task(detail::Predicate done) {
  if (!done()) parking::park(done);
}

// Tests the waits of parked light tasks for a worker that has other tasks to run. The looks of all
// workers take at most a fifth of a core's time.
mh_poll poll_between_tasks() {
  // Time (ticks) of the next look of any worker. relaxed: the look may be a bit early or late.
  static constinit std::atomic<std::uint64_t> next_poll{0};
  const std::uint64_t begin = ticks();
  if (parking::is_polling() || begin < next_poll.load(std::memory_order_relaxed)) {
    return MH_POLL_NOTHING;
  }
  if (!parking::begin_polling()) return MH_POLL_ELSEWHERE;
  const unsigned found = parking::poll();
  parking::end_polling();
  const std::uint64_t end = ticks();
  const std::uint64_t pause =
      std::max(4 * (end - begin), ticks_from_ns(tuning::kLookBetweenTasksNs));
  next_poll.store(end + pause, std::memory_order_relaxed);
  return found != 0 ? MH_POLL_FOUND : MH_POLL_NOTHING;
}

// Tests the waits of parked light tasks for an idle worker, and helps other ranks. If its scheduler
// has more workers than the rank has cores, the worker yields its core to another worker.
mh_poll poll_in_idleness(unsigned workers) {
  if (!parking::begin_polling()) return MH_POLL_ELSEWHERE;
  if (parking::poll() != 0) {
    end_help();
    return MH_POLL_FOUND;
  }
  if (help_once()) return MH_POLL_NOTHING;
  if (t_own_loop_wait && workers <= g_waits.rules.cores) {
    t_own_loop_wait->back_off();
  } else {
    sched_yield();
  }
  return MH_POLL_NOTHING;
}

}  // namespace

TaskOffer offer_tasks(const TaskOffer& tasks) { return std::exchange(t_offer, tasks); }

void install_actions(WaitActions* actions, const WaitRules& rules) {
  g_waits.rules = rules;
  g_waits.admission.set_limits({.cores = rules.cores > 1 ? rules.cores - 1 : 1,
                                .patience = ticks_from_ns(tuning::kOneMoreThreadNs),
                                .alone = ticks_from_ns(tuning::kCoreIsIdleNs),
                                .yield = ticks_from_ns(tuning::kYieldNs)});
  g_waits.shares.store(actions != nullptr && rules.cores != 0, std::memory_order_relaxed);
  ++g_waits.installations;
  g_waits.actions = actions;
}

std::uint32_t cores() { return g_waits.rules.cores; }
bool is_oversubscribed() { return g_waits.rules.oversubscribed; }

void share_no_waits() { g_waits.shares.store(false, std::memory_order_relaxed); }

namespace detail {

void until_slow(Predicate done, OfferedTasks tasks) {
  // No actions are installed before Manyhands has started, and after its end. The rank may not have
  // a core of its own then, so the thread yields.
  if (g_waits.actions == nullptr) {
    while (!done()) sched_yield();
    return;
  }
  if (g_waits.actions->is_guest()) return until_as_guest(done);
  WaitScope scope(ticks());
  while (!done()) {
    if (scope.step()) continue;
    if (tasks == OfferedTasks::may_run && scope.run_task()) continue;
    g_waits.actions->between_polls();
    scope.back_off();
  }
  scope.end();
}

bool help_if_polling(Predicate poll) {
  using Verdict = PollingStretch::Verdict;
  if (g_waits.actions == nullptr || t_has_help_lock || parking::is_in_task()) return false;
  if (g_waits.actions->is_guest()) return false;
  PollingStretch& stretch = thread_stretch();
  Verdict verdict = stretch.look(ticks());
  if (verdict == Verdict::unknown) {
    const std::uint64_t alone = measure_poll(poll);
    if (alone == 0) return true;
    verdict = stretch.is_pure(alone, ticks()) ? Verdict::only_polls : Verdict::works;
  }
  const bool came = verdict == Verdict::only_polls && help_between_polls(stretch, poll);
  stretch.leave(ticks());
  return came;
}

void until_shared_slow(Predicate done) {
  const bool shares = g_waits.shares.load(std::memory_order_relaxed) && !t_has_help_lock &&
                      !t_serves && !parking::is_polling();
  const bool alone = !shares || t_offer.run != nullptr;
  if (!alone && parking::is_in_task() && parking::may_park()) return until_in_task(done);
  if (alone || g_waits.actions->is_guest()) return until_slow(done, OfferedTasks::may_run);
  until_shared_by_threads(done);
}

}  // namespace detail

void note_failed_poll() {
  if (g_waits.actions == nullptr) return;
  if (const HelpLock lock; lock) do_own_duties();
  if (!g_waits.actions->is_guest() || !g_waits.actions->is_overdue()) return;
  g_waits.actions->return_core();
  sched_yield();
}

bool help_once() {
  if (g_waits.actions == nullptr || t_has_help_lock || g_waits.actions->is_guest()) return false;
  if (!t_own_loop_wait) t_own_loop_wait.emplace(ticks());
  const bool worked = t_own_loop_wait->step();
  if (!worked) g_waits.actions->between_polls();
  return worked;
}

void end_help() {
  if (t_own_loop_wait && g_waits.actions != nullptr) t_own_loop_wait->end();
  t_own_loop_wait.reset();
}

const mh_parked_waits& parked_waits() {
  static constexpr mh_parked_waits kWaits{
      .poll =
          [](unsigned idle_among) {
            return idle_among == 0 ? poll_between_tasks() : poll_in_idleness(idle_among);
          },
      .end_idle =
          [] {
            end_help();
            parking::end_polling();
          }};
  return kWaits;
}

}  // namespace mh::wait
