// SPDX-License-Identifier: BSD-3-Clause
// The operations of a light task on its worker: spawn, yield, wait and signal. The allocation of
// task slots.
#include "ult/worker.hpp"

#include <cxxabi.h>
#include <sched.h>

#include <new>

namespace mh::ult::detail {
namespace {

thread_local Worker* thread_worker = nullptr;

}  // namespace

[[gnu::noinline]] Worker* this_thread_worker() {
  asm volatile("" ::: "memory");
  return thread_worker;
}

Worker::Worker(SchedulerCore& owner, std::uint32_t number)
    : core(owner),
      id(number),
      records_(owner.shape.slots),
      slots_(new std::atomic<TaskRecord*>[owner.shape.slots] {}),
      stacks_(owner.depot),
      seen_(owner.count),
      random_(number + 1),
      fresh_words_(owner.shape),
      started_words_(owner.shape),
      signal_words_(owner.shape),
      free_own_words_(owner.shape),
      free_shared_words_(owner.shape),
      fresh_(owner.shape, fresh_words_.words()),
      started_(owner.shape, started_words_.words()),
      free_own_(owner.shape, free_own_words_.words()),
      signals_(owner.shape, signal_words_.words()),
      free_shared_(owner.shape, free_shared_words_.words()) {
  for (std::uint32_t slot = 0; slot < owner.shape.slots; ++slot) free_shared_.set(slot);
}

// The main function of the worker's thread. Runs on the root, the thread's own stack.
void Worker::live() {
  thread_worker = this;
  exceptions_ = abi::__cxa_get_globals();
  adopt_thread_stack(root_fibre_);
  while (TaskRecord* next = next_or_sleep()) {
    next = with_stack(next);
    if (next != nullptr) leave(After::left_root, next);
  }
}

// --- task slots and task records ------------------------------------------------------------

// Called on this worker's thread. Takes this worker's first free slot from `after` on, else any
// free slot. A child's slot thus follows its parent's. kNoSlot: no slot is free.
std::uint32_t Worker::take_slot(std::uint32_t after) {
  if (free_count_ == 0 && !find_free_slots(after)) [[unlikely]]
    return kNoSlot;
  const std::uint32_t slot = free_own_.find(after);
  free_own_.clear(slot);
  --free_count_;
  return slot;
}

// Called on this worker's thread, when free_own_ has no slot left. Moves one word of 64 slots,
// those of them that are free, from free_shared_ to free_own_. False: free_shared_ is empty, too.
[[gnu::noinline]] bool Worker::find_free_slots(std::uint32_t after) {
  for (;;) {
    const std::uint32_t found = free_shared_.find(after);
    if (found == kNoSlot) return false;
    const std::uint64_t word = free_shared_.take_word(found / kWordBits);
    if (word == 0) continue;  // another thread took the slots first
    free_own_.set_word(found / kWordBits, word);
    free_count_ = static_cast<std::uint32_t>(std::popcount(word));
    return true;
  }
}

// Returns the record of a slot that the caller has taken. A slot that is used for the first time
// gets the record of the same number.
TaskRecord* Worker::record_at(std::uint32_t slot) {
  TaskRecord* record = slots_[slot].load(std::memory_order_acquire);
  if (record == nullptr) {
    record = new (records_.at(slot)) TaskRecord(&core, !core.stealing);
    slots_[slot].store(record, std::memory_order_release);
  }
  return record;
}

TaskRecord* Worker::prepare(std::uint32_t slot) {
  TaskRecord* record = record_at(slot);
  record->borrows = false;
  record->refused = Code::ok;
  record->stack.store(nullptr, std::memory_order_relaxed);
  record->exceptions = {};
  record->location.store({id, slot}, std::memory_order_relaxed);
  record->joiner.set(JoinWord<RealAtomics>::kNobody);
  return record;
}

// Called on this worker's thread, in a task that spawns. Takes a slot for the new task and prepares
// its record; nullptr: no slot is free.
TaskRecord* Worker::draft() {
  const Location parent = current->location.load(std::memory_order_relaxed);
  const std::uint32_t slot = take_slot(parent.worker == id ? parent.slot + 1 : 0);
  if (slot == kNoSlot) [[unlikely]] {
    counts.refused.add();
    return nullptr;
  }
  counts.spawned.add();
  return prepare(slot);
}

// Called by any thread that spawns. Takes a slot of this worker and prepares its record; nullptr:
// no slot is free. The slots in free_own_, at most an eighth of all slots, do not count as free for
// this call.
TaskRecord* Worker::draft_shared() {
  for (;;) {
    const std::uint32_t slot = free_shared_.first_from(0);
    if (slot == kNoSlot) return nullptr;
    if (free_shared_.take(slot)) return prepare(slot);
  }
}

bool Worker::is_home(const Worker* worker, const TaskRecord* record, Location at) {
  return worker != nullptr && worker->id == at.worker && &worker->core == record->core;
}

void Worker::release(TaskRecord* record, Worker* here) {
  const Location at = record->location.load(std::memory_order_relaxed);
  if (is_home(here, record, at) && here->free_count_ < here->core.shape.slots / 8) {
    here->free_own_.set(at.slot);
    ++here->free_count_;
  } else {
    record->core->workers[at.worker]->free_shared_.set(at.slot);
  }
}

// --- making tasks ready ---------------------------------------------------------------------

void Worker::publish(TaskRecord* record, std::uint32_t slot) {
  record->state.start_ready();
  fresh_.set(slot);
  announce();
}

void Worker::publish_shared(TaskRecord* record, std::uint32_t slot, const Worker* caller) {
  record->state.start_ready();
  signal(slot, caller);
}

// Called by this worker after it has published a task that a thief may take. Wakes a sleeping
// worker, unless a worker already seeks work or this process already uses its share of the cores.
void Worker::announce() {
  if (core.watch.wants_thief() && !core.has_its_share()) [[unlikely]]
    core.ring_a_sleeper(id);
}

void Worker::signal(std::uint32_t slot, const Worker* caller) {
  signals_.set(slot);
  if (this != caller && bell.ring(core.watch)) return;
  announce();
}

// Called on this worker's thread. Signals one of its own tasks without an atomic operation on the
// set `signals_`. The task may have migrated before nudge() changed its state, so this function
// reads the location again.
void Worker::signal_own(TaskRecord* record, Location location) {
  if (!record->state.nudge()) return;
  const Location now = record->location.load(std::memory_order_seq_cst);
  if (now == location) {
    if (next_.load(std::memory_order_relaxed) == nullptr) {
      next_.store(record, std::memory_order_release);
    } else {
      started_.set(location.slot);
    }
    announce();
  } else {
    core.workers[now.worker]->signal(now.slot, this);
  }
}

// Called on this worker's thread. Takes over a signalled task of another worker, its home. This is
// done if the home sleeps and, awake, would need a core that another process of this host uses
// (share_cores()). To wake the home would take longer than most tasks run between two waits.
bool Worker::take_over(TaskRecord* record, Location at) {
  if (&core != record->core || !core.stealing || !core.has_its_share()) return false;
  if (core.workers[at.worker]->bell.is_awake()) return false;
  // If claim_signalled() fails, another worker runs the task, which now has the signal, or the task
  // has ended. There is nothing to take over.
  if (!record->state.claim_signalled()) return true;
  migrate(record);
  record->state.make_ready();
  show(record);
  counts.stolen.add();
  return true;
}

void signal(TaskRecord* record) noexcept {
  Worker* here = this_thread_worker();
  send_signal(record->location, [=](Location at) {
    if (Worker::is_home(here, record, at)) {
      here->signal_own(record, at);
    } else if (here == nullptr || !here->take_over(record, at)) {
      record->core->workers[at.worker]->signal(at.slot, here);
    }
  });
}

// --- yield and wait of the running task -----------------------------------------------------

void Worker::yield() {
  if (TaskRecord* next = with_stack(choose())) {
    leave(After::yielded, next);
  } else if (core.crowds()) {
    ::sched_yield();
  }
}

void Worker::wait() {
  if (current->state.consume()) return;
  const Location home = current->location.load(std::memory_order_relaxed);
  if (signals_.may_have() && home.worker == id && signals_.has(home.slot) &&
      signals_.take(home.slot)) {
    return;
  }
  leave(After::blocked, with_stack(choose()));
}

// --- the functions behind manyhands/ult/task.hpp --------------------------------------------

namespace {

Draft as_draft(TaskRecord* record, TaskRecord* parent) {
  return {record, record == nullptr ? nullptr : record->storage, parent};
}

}  // namespace

TaskRecord* self() noexcept {
  const Worker* worker = this_thread_worker();
  return worker == nullptr ? nullptr : worker->current;
}

Draft draft() noexcept {
  Worker* worker = this_thread_worker();
  if (worker == nullptr || worker->current == nullptr) return {nullptr, nullptr, nullptr};
  return as_draft(worker->draft(), worker->current);
}

bool has_worker(unsigned worker) noexcept {
  return worker < this_thread_worker()->core.workers.size();
}

Draft draft_on(unsigned worker) noexcept {
  Worker* here = this_thread_worker();
  if (worker == here->id) return draft();
  return draft_anywhere(&here->core, worker);
}

Draft draft_anywhere(SchedulerCore* core, unsigned worker) noexcept {
  if (worker == kNoWorker) {
    const std::uint32_t next = core->next_worker.fetch_add(1, std::memory_order_relaxed);
    worker = next % static_cast<unsigned>(core->workers.size());
  }
  Worker& home = *core->workers[worker];
  TaskRecord* record = home.draft_shared();
  if (record == nullptr) core->refused.fetch_add(1, std::memory_order_relaxed);
  return as_draft(record, nullptr);
}

void discard(TaskRecord* record) noexcept { Worker::release(record, this_thread_worker()); }

void publish(TaskRecord* record, Body body, const char* name, GroupCounter* group) noexcept {
  record->body = body;
  record->name = name;
  record->group = group;
  Worker* here = this_thread_worker();
  const Location at = record->location.load(std::memory_order_relaxed);
  if (Worker::is_home(here, record, at)) {
    here->publish(record, at.slot);
  } else {
    record->core->workers[at.worker]->publish_shared(record, at.slot, here);
  }
}

}  // namespace mh::ult::detail

namespace mh::ult {

void yield() noexcept {
  detail::Worker* worker = detail::this_thread_worker();
  if (worker != nullptr && worker->current != nullptr) {
    worker->yield();
  } else {
    ::sched_yield();
  }
}

void wait() noexcept {
  detail::Worker* worker = detail::this_thread_worker();
  if (worker != nullptr && worker->current != nullptr) worker->wait();
}

unsigned this_worker() noexcept {
  const detail::Worker* worker = detail::this_thread_worker();
  return worker == nullptr ? kNoWorker : worker->id;
}

}  // namespace mh::ult
