// SPDX-License-Identifier: BSD-3-Clause
// The choice of a worker's next task from its own sets of bits (signalled, fresh and started
// tasks).
#include "ult/parking.hpp"
#include "ult/worker.hpp"

namespace mh::ult::detail {

// Called on this worker's thread. Returns a task that this worker has claimed and that the caller
// must run; nullptr: no task is ready. Every kFairTurns-th call prefers one of the three sets
// (signalled, fresh, started), each in turn (worker.hpp).
TaskRecord* Worker::choose() {
  turns_.add();
  if (turns_.get() % kFairTurns == 0) {
    if (core.has_parked()) parked_waits()->poll(0);
    if (TaskRecord* record = choose_in_turn()) return record;
  }
  if (TaskRecord* record = next_.load(std::memory_order_relaxed)) {
    next_.store(nullptr, std::memory_order_relaxed);
    if (record->state.claim_ready()) return record;
  }
  if (signals_.may_have()) {
    if (TaskRecord* record = choose_signalled()) return record;
  }
  if (fresh_.may_have()) {
    if (TaskRecord* record = choose_fresh()) return record;
  }
  return started_.may_have() ? choose_started() : nullptr;
}

TaskRecord* Worker::choose_in_turn() {
  switch (turns_.get() / kFairTurns % 3) {
    case 0:
      return choose_signalled();
    case 1:
      if (const std::uint32_t slot = fresh_.find(fresh_cursor_); slot != kNoSlot) {
        fresh_cursor_ = slot + 1;
        return choose_own(fresh_, slot);
      }
      return nullptr;
    default:
      return choose_started();
  }
}

TaskRecord* Worker::choose_signalled() {
  for (;;) {
    const std::uint32_t slot = signals_.find(signal_cursor_);
    if (slot == kNoSlot) return nullptr;
    signal_cursor_ = slot + 1;
    if (!signals_.take(slot)) continue;
    TaskRecord* record = slots_[slot].load(std::memory_order_acquire);
    if (record->state.claim_signalled()) return record;
  }
}

TaskRecord* Worker::choose_fresh() {
  const bool newest = core.config.order == Order::depth_first;
  for (;;) {
    const std::uint32_t slot = newest ? fresh_.find_last() : fresh_.find(fresh_cursor_);
    if (slot == kNoSlot) return nullptr;
    fresh_cursor_ = slot + 1;
    if (TaskRecord* record = choose_own(fresh_, slot)) return record;
  }
}

TaskRecord* Worker::choose_started() {
  for (;;) {
    const std::uint32_t slot = started_.find(started_cursor_);
    if (slot == kNoSlot) return nullptr;
    started_cursor_ = slot + 1;
    if (TaskRecord* record = choose_own(started_, slot)) return record;
  }
}

// Clears the slot's bit in this worker's set and claims the slot's task. nullptr: the bit was
// stale, because a thief has claimed the task.
TaskRecord* Worker::choose_own(OwnBits<RealAtomics>& set, std::uint32_t slot) {
  set.clear(slot);
  // acquire: pairs with the release in migrate(). A thief that becomes the home of a stolen task
  // puts another record into this worker's slot.
  TaskRecord* record = slots_[slot].load(std::memory_order_acquire);
  return record->state.claim_ready() ? record : nullptr;
}

}  // namespace mh::ult::detail
