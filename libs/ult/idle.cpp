// SPDX-License-Identifier: BSD-3-Clause
// A worker without tasks of its own: seeking, stealing, sleeping (doorbell.hpp).
//
// A thief searches the words of its victim's sets from slot 0 on. The victim itself comes to these
// slots last. The thief copies a word and claims the tasks in it one by one. The other tasks of the
// word stay visible to other workers meanwhile. A thief takes signalled tasks only from a victim
// that has chosen no task for kPatienceNs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/clock.hpp"
#include "base/line.hpp"
#include "base/tuning.hpp"
#include "ult/parking.hpp"
#include "ult/worker.hpp"

namespace mh::ult::detail {
namespace {
constexpr std::chrono::microseconds kStopPoll{50};  // between the polls of all_done()
constexpr int kQuietPolls = 64;                     // polls; one to two microseconds together
constexpr int kPollsPerSteal = 8;                   // quiet polls for each attempt to steal
}  // namespace

// Runs on the worker's thread, on that thread's own stack, when the worker has no task. Returns a
// task that the worker has claimed and runs next, or nullptr when the scheduler ends.
TaskRecord* Worker::next_or_sleep() {
  for (;;) {
    if (TaskRecord* record = choose()) return record;
    if (core.has_parked()) {
      if (TaskRecord* record = poll_parked()) return record;
      continue;
    }
    if (TaskRecord* record = spin_for_task()) return record;
    if (core.stopping.load(std::memory_order_seq_cst)) {
      if (all_done()) return nullptr;
    } else {
      nap();
    }
  }
}

// Polls the waits of tasks that are parked in MPI calls, until this worker has a task to run.
// Returns nullptr if no task is parked any more, or if another worker polls; in the latter case
// this worker has slept for a moment (doze()). If the polling worker begins a long task, another
// worker polls in its place after a doze.
TaskRecord* Worker::poll_parked() {
  const mh_parked_waits& waits = *parked_waits();
  TaskRecord* record = nullptr;
  bool polls = true;
  while (polls && record == nullptr && core.has_parked()) {
    polls = !is_one_too_many() && waits.poll(core.awake()) != MH_POLL_ELSEWHERE;
    record = choose();
    if (record == nullptr && core.stealing) record = steal();
  }
  waits.end_idle();
  if (record != nullptr) {
    doze_ns_ = 0;
  } else if (!polls) {
    doze();
  }
  return record;
}

// True if this worker would take a core from another process, while another worker of its scheduler
// chooses tasks and so polls the parked waits as well.
bool Worker::is_one_too_many() {
  if (!core.takes_others_cores()) return false;
  return std::ranges::any_of(core.workers, [this](const auto& worker) {
    return worker.get() != this && worker->bell.is_awake() && !is_busy(*worker);
  });
}

// Looks for a task for a short time without counting this worker among the seekers in `watch`. All
// seekers write the cache line of `watch`, and these writes would delay a worker whose signal is
// about to arrive.
TaskRecord* Worker::poll_quietly() {
  const int polls = core.oversubscribed() || core.spin_ticks == 0 ? 1 : kQuietPolls;
  for (int i = 0; i < polls; ++i) {
    if (core.stealing && i % kPollsPerSteal == 0) {
      if (TaskRecord* record = steal()) return record;
    }
    if (signals_.may_have()) {
      if (TaskRecord* record = choose()) return record;
    }
    spin_pause();
  }
  return nullptr;
}

// Looks for a task for the time Config::spin, or once if workers outnumber cores. nullptr: none was
// found. With stealing, the worker counts as a seeker meanwhile, so spawners need not wake another
// worker.
TaskRecord* Worker::spin_for_task() {
  if (TaskRecord* record = poll_quietly()) return record;
  Watch<RealAtomics>& watch = core.watch;
  if (core.stealing) watch.seekers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint64_t start = ticks();
  const std::uint64_t patience = core.oversubscribed() ? 0 : core.spin_ticks;
  TaskRecord* record = nullptr;
  do {
    record = core.stealing ? steal() : nullptr;
    if (record == nullptr) record = choose();
    if (record != nullptr) break;
    spin_pause();
  } while (ticks() - start < patience);
  if (!core.stealing) return record;
  // While a worker seeks, spawners wake no sleeper. The last seeker that leaves with a task
  // therefore wakes a sleeper, which may steal what the spawners have published meanwhile.
  const bool last = watch.seekers.fetch_sub(1, std::memory_order_seq_cst) == 1;
  if (record != nullptr) {
    fruitless_ = false;
    if (last && watch.sleepers.load(std::memory_order_seq_cst) != 0) core.ring_a_sleeper(id);
  }
  return record;
}

// Sleeps or dozes until there may be a task for this worker, or the scheduler stops. Only a signal
// for its own tasks wakes a dozing worker early (doorbell.hpp).
void Worker::nap() {
  counts.slept.add();
  tell_if_stuck();
  if (!core.stealing) {
    // Without stealing, only signals to this worker's own tasks may wake it, and those end a doze
    // as well.
    return rest(Sleep::dozing, 0, [this] { return has_work(); });
  }
  // The worker dozes if its last sleep was fruitless, if another worker has signalled tasks to
  // steal soon, or if the awake workers exceed this process's share of the cores. No spawner wakes
  // a dozing worker.
  if (fruitless_ || others_wait() || core.takes_others_cores()) {
    fruitless_ = false;
    return doze();
  }
  // While as many workers are awake as this process has cores, a spawner wakes no thief
  // (announce()). The sleep then has a limit, so that published tasks do not wait for ever.
  const std::int64_t limit_ns = core.shares_cores() && core.oversubscribed() ? kLongestDoze : 0;
  rest(Sleep::asleep, limit_ns, [this] { return has_work() || has_prey(); });
  fruitless_ = true;
}

// Prints a message, once, if no task of the scheduler has run for kStuckNs while a task runs a
// child itself (Group::spawn()). The child may wait for its parent, which is below it on the same
// stack. Then only a thread outside the scheduler can wake any task.
void Worker::tell_if_stuck() {
  if (!core.runs_a_child_here()) [[likely]]
    return;
  std::uint64_t switches = 0;
  for (const auto& worker : core.workers) switches += worker->counts.switches.get();
  const std::uint64_t now = ticks();
  if (switches != quiet_.count) {
    quiet_ = {switches, now};
    return;
  }
  const bool quiet = now - quiet_.ticks >= ticks_from_ns(double{tuning::kStuckNs});
  const bool stuck = quiet && core.awake() == 1;  // all other workers rest, too
  if (!stuck || core.told_stuck.exchange(true, std::memory_order_relaxed)) return;
  char text[256];
  std::snprintf(text, sizeof text,
                "scheduler %s: every task waits. A child runs inside Group::spawn(), because its "
                "worker has no slot beyond %u tasks, and the child may wait for its parent. "
                "Remedy: raise Config::tasks_per_worker",
                core.config.name, core.shape.slots);
  print_line(text);
}

template <class Work>
void Worker::rest(Sleep how, std::int64_t limit_ns, Work work) {
  core.resting.fetch_add(1, std::memory_order_relaxed);
  // With a limit to its sleep the worker comes back to tell_if_stuck(), which may print a message.
  if (limit_ns == 0 && core.runs_a_child_here()) limit_ns = tuning::kStuckNs;
  bell.rest(core.watch, how, limit_ns, work);
  core.resting.fetch_sub(1, std::memory_order_relaxed);
}

// Dozes twice as long as the last time, at most kLongestDoze. Only signals to this worker's own
// tasks, or the end of the scheduler, end a doze early.
void Worker::doze() {
  doze_ns_ = std::clamp(2 * doze_ns_, kShortestDoze, kLongestDoze);
  rest(Sleep::dozing, doze_ns_, [this] { return has_work(); });
}

// True: this worker has a signalled task of its own, or the scheduler stops.
bool Worker::has_work() const {
  return has_signalled() || core.stopping.load(std::memory_order_seq_cst);
}

// True: another worker has a ready or signalled task, which this worker could steal now or soon.
bool Worker::has_prey() const {
  const auto ready = [](const Worker& victim, const OwnBits<RealAtomics>& set) {
    for (std::uint32_t slot = set.first_from(0); slot != kNoSlot; slot = set.first_from(slot + 1)) {
      const TaskRecord* record = victim.slots_[slot].load(std::memory_order_acquire);
      if (record->state.phase() == Phase::ready) return true;
    }
    return false;
  };
  for (const auto& victim : core.workers) {
    if (victim.get() == this) continue;
    if (ready(*victim, victim->fresh_) || ready(*victim, victim->started_)) return true;
  }
  return others_wait();
}

// True: another worker has a signalled task, which can be stolen once that worker is busy for
// kPatienceNs.
bool Worker::others_wait() const {
  for (const auto& victim : core.workers) {
    if (victim.get() != this && victim->has_signalled()) return true;
  }
  return false;
}

// Called by each idle worker while the scheduler stops. True: all workers are in this function at
// the same time, and none has found a task. False: there is a task, and this worker goes on.
bool Worker::all_done() {
  core.done.fetch_add(1, std::memory_order_seq_cst);
  while (core.done.load(std::memory_order_seq_cst) < core.workers.size()) {
    if (has_signalled() || has_prey()) {
      core.done.fetch_sub(1, std::memory_order_seq_cst);
      return false;
    }
    std::this_thread::sleep_for(kStopPoll);
  }
  return true;
}

// --- stealing tasks of other workers --------------------------------------------------------

// Steals a task that another worker has published. Returns the task, claimed for this worker;
// nullptr: none can be stolen. An earlier call may have found several published tasks of one
// worker, of which it claimed one. This call first tries to claim one of the others (work_loot()).
// Then it searches the workers in turn, from a random worker on.
TaskRecord* Worker::steal() {
  TaskRecord* record = work_loot();
  const auto count = static_cast<std::uint32_t>(core.workers.size());
  random_ = random_ * 1664525U + 1013904223U;
  for (std::uint32_t i = 0; record == nullptr && i < count; ++i) {
    const std::uint32_t victim = (random_ / 65536U + i) % count;
    if (victim != id) record = rob(*core.workers[victim]);
  }
  if (record != nullptr) {
    doze_ns_ = 0;
    counts.stolen.add();
  }
  return record;
}

// Claims the next task of `loot_`, this thief's copy of a word of its victim's set, that is still
// ready; nullptr: none is.
TaskRecord* Worker::work_loot() {
  while (loot_.bits != 0) {
    const std::uint32_t slot = loot_.first_slot + lowest(loot_.bits);
    loot_.bits &= loot_.bits - 1;
    // acquire: pairs with the release in migrate() and record_at(), which put the record into the
    // slot.
    TaskRecord* record = loot_.victim->slots_[slot].load(std::memory_order_acquire);
    if (record->state.claim_ready()) return record;
  }
  return nullptr;
}

// Steals a task from `victim`; nullptr: there is none to steal. A thief beyond this process's share
// of the cores competes with running workers for their cores, and robs only a victim that is busy
// with one long task.
TaskRecord* Worker::rob(Worker& victim) {
  if (core.takes_others_cores() && !is_busy(victim)) return nullptr;
  if (TaskRecord* record = rob_set(victim, victim.fresh_)) return record;
  if (TaskRecord* record = rob_set(victim, victim.started_)) return record;
  return victim.has_signalled() ? rob_signalled(victim) : nullptr;
}

TaskRecord* Worker::rob_set(Worker& victim, const OwnBits<RealAtomics>& set) {
  if (!set.may_have()) return nullptr;
  for (std::uint32_t slot = set.first_from(0); slot != kNoSlot;) {
    const std::uint32_t leaf = slot / kWordBits;
    loot_ = {&victim, leaf * kWordBits, set.leaf_word(leaf)};
    if (TaskRecord* record = work_loot()) return record;
    slot = set.first_from((leaf + 1) * kWordBits);
  }
  return nullptr;
}

// True if the victim has chosen no task for kPatienceNs, and so is busy with one long task. The
// first call that sees a new choice of the victim starts the time and returns false.
bool Worker::is_busy(const Worker& victim) {
  CounterReading& seen = seen_[victim.id];
  const std::uint64_t turns = victim.turns_.get();
  const std::uint64_t now = ticks();
  if (seen.count != turns) {
    seen = {turns, now};
    return false;
  }
  return now - seen.ticks >= core.patience_ticks;
}

TaskRecord* Worker::rob_signalled(Worker& victim) {
  if (!is_busy(victim)) return nullptr;
  // acquire: pairs with the release in signal_own(), with which the victim stored the task's record
  // in `next_`.
  TaskRecord* next = victim.next_.load(std::memory_order_acquire);
  if (next != nullptr && next->state.claim_ready()) return next;
  for (std::uint32_t slot = victim.signals_.first_from(0); slot != kNoSlot;
       slot = victim.signals_.first_from(slot + 1)) {
    if (!victim.signals_.take(slot)) continue;
    TaskRecord* record = victim.slots_[slot].load(std::memory_order_acquire);
    if (record->state.claim_signalled()) return record;
  }
  return nullptr;
}

}  // namespace mh::ult::detail
