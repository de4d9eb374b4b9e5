// SPDX-License-Identifier: BSD-3-Clause
// The end of a task, joins, and the wait for a group.
//
// A task without a group ends with one exchange of TaskRecord::joiner. The exchange gives the task
// its joiner, and tells a later joiner that the task has ended. A child of a group decrements
// GroupCounter::left; the last child wakes the parent. If the joiner or parent is blocked and off
// its stack, the worker on which the task ended runs it at once. Otherwise the joiner or parent
// gets a signal.
#include "ult/worker.hpp"

namespace mh::ult::detail {
namespace {

void drop_locals(TaskRecord* record);

Outcome outcome_of(TaskRecord* record) {
  return {{record->refused}, std::exchange(record->thrown, nullptr)};
}

}  // namespace

// Runs the task's function on the current stack, which is the task's own or its joiner's.
void Worker::run_body(TaskRecord* record) {
  try {
    record->body(record->storage, true);
  } catch (...) {
    record->thrown = std::current_exception();
  }
  if (record->locals != nullptr) drop_locals(record);
}

// Called on this worker's thread, still on the ended task's stack. Returns the task that waited for
// this end, if this worker has claimed it and the caller must run it next; else nullptr. The caller
// must not touch the record afterwards.
TaskRecord* Worker::finish(TaskRecord* record) {
  counts.finished.add();
  const Telling mark(this);
  record->state.end();
  return record->group != nullptr ? tell_group(record) : tell_joiner(record);
}

TaskRecord* Worker::tell_group(TaskRecord* record) {
  GroupCounter& group = *record->group;
  note(group, record);
  TaskRecord* parent = group.parent;
  release(record, this);
  // acq_rel: pairs with the accesses to `left` in wait(GroupCounter&). After the decrement the
  // parent may have destroyed the group.
  return group.left.fetch_sub(1, std::memory_order_acq_rel) == 1 ? wake(parent) : nullptr;
}

TaskRecord* Worker::tell_joiner(TaskRecord* record) {
  const std::uintptr_t was = record->joiner.end();
  if (was == JoinWord<RealAtomics>::kNobody) return nullptr;
  if (was == JoinWord<RealAtomics>::kDetached) {
    record->thrown = nullptr;
    release(record, this);
    return nullptr;
  }
  if ((was & kSleeperBit) != 0) {
    auto* word = &reinterpret_cast<Sleeper*>(was & ~kSleeperBit)->ended;
    word->store(1, std::memory_order_release);
    RealAtomics::wake(word);
    return nullptr;
  }
  return wake(reinterpret_cast<TaskRecord*>(was));
}

// True: this worker may run the task. Only workers of the task's scheduler may run it. Without
// stealing, only its home (the worker in whose sets the task has its slot) may run it.
bool Worker::may_run(const TaskRecord* record) const {
  if (record->core != &core) return false;
  return core.stealing || record->location.load(std::memory_order_relaxed).worker == id;
}

// Wakes a task that waited for the end of another task or of a group. Returns the waiter if this
// worker has claimed it and must run it next; otherwise signals the waiter and returns nullptr.
TaskRecord* Worker::wake(TaskRecord* waiter) {
  if (may_run(waiter) && waiter->state.resume()) return waiter;
  detail::signal(waiter);
  return nullptr;
}

// Ends a claimed task that cannot run because no stack could be mapped, with the outcome `full`.
// Returns the task to run next, or nullptr, as finish() does.
TaskRecord* Worker::refuse(TaskRecord* record) {
  record->body(record->storage, false);
  record->refused = Code::full;
  return finish(record);
}

// Passes the refusal (no stack) or the exception of an ended child to its group. The group keeps
// the first exception.
void Worker::note(GroupCounter& group, TaskRecord* record) {
  if (record->refused != Code::ok) group.refused.store(true, std::memory_order_relaxed);
  if (record->thrown == nullptr) return;
  if (!group.has_thrown.exchange(true, std::memory_order_relaxed)) {
    group.thrown = std::exchange(record->thrown, nullptr);
  }
  record->thrown = nullptr;
}

// True: the current stack has at least Config::stack_bytes left, the minimum for every task.
// Another task may then run on this stack inside a join.
bool Worker::has_room() const {
  const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
  const std::byte* low = current->stack.load(std::memory_order_relaxed)->low;
  return here - low >= static_cast<std::ptrdiff_t>(core.config.stack_bytes);
}

// Runs a claimed task that has not begun as a function call, on the stack of the running task, its
// joiner. Meanwhile the new task is the current task: it may block, be signalled and be stolen,
// together with the joiner's frames below it. Returns the worker on which the new task ended.
Worker* Worker::run_inline(TaskRecord* record) {
  TaskRecord* parent = current;
  record->stack.store(parent->stack.load(std::memory_order_relaxed), std::memory_order_relaxed);
  record->borrows = true;
  current = record;
  run_body(record);
  Worker* worker = this_thread_worker();
  worker->current = parent;
  worker->counts.finished.add();
  worker->counts.inlined.add();
  record->state.end();
  return worker;
}

// Called on this worker's thread, in a task, the joiner. Returns when the task of `record` has
// ended, perhaps on another worker.
void Worker::join(TaskRecord* record) {
  if (record->joiner.ended()) return;
  if (may_run(record) && record->state.claim_ready()) {
    if (const Location at = record->location.load(std::memory_order_relaxed); at.worker == id) {
      fresh_.clear(at.slot);
    }
    const bool begun = record->stack.load(std::memory_order_relaxed) != nullptr;
    if (!begun && core.config.inline_joins && has_room()) {
      run_inline(record);
      return;
    }
    // This worker has claimed the joined task, so no other thread runs it or reads its `joiner`: a
    // plain set() is enough. The worker then switches to the task directly.
    record->joiner.set(reinterpret_cast<std::uintptr_t>(current));
    leave(After::blocked, with_stack(record));
  } else {
    if (!record->joiner.enlist(reinterpret_cast<std::uintptr_t>(current))) return;
  }
  while (!record->joiner.ended()) ult::wait();
}

// Called by a parent that waits for its group. Runs this worker's newest task on the current stack,
// if it is a child of the group and has not begun. True: the caller should try again. False: no
// task is fresh (not begun), the newest fresh task is no such child, or there is no room on the
// stack.
bool Worker::take_child(GroupCounter& group) {
  const std::uint32_t slot = fresh_.find_last();
  if (slot == kNoSlot) return false;
  TaskRecord* record = choose_own(fresh_, slot);
  if (record == nullptr) return true;
  const bool begun = record->stack.load(std::memory_order_relaxed) != nullptr;
  if (record->group != &group || begun || !has_room()) {
    record->state.make_ready();
    fresh_.set(slot);
    announce();
    return false;
  }
  Worker* worker = run_inline(record);
  ++group.run_by_parent;
  note(group, record);
  release(record, worker);
  return true;
}

void wait(GroupCounter& group) noexcept {
  if (group.spawned == 0) return;
  Worker* worker = this_thread_worker();
  if (worker->core.config.inline_joins) {
    while (worker->take_child(group)) worker = this_thread_worker();
  }
  const std::int64_t elsewhere = group.spawned - group.run_by_parent;
  group.spawned = group.run_by_parent = 0;
  // The parent ran all tasks of the group itself, so no child has changed `left`.
  if (elsewhere == 0) return;
  // acq_rel: pairs with the decrement in tell_group(). The parent sees what the ended children
  // wrote.
  if (group.left.fetch_add(elsewhere, std::memory_order_acq_rel) + elsewhere == 0) return;
  while (group.left.load(std::memory_order_acquire) != 0) ult::wait();
}

// begin_here() and end_here() do nothing on an ordinary thread, which has called Group::spawn() by
// mistake. runs_a_child_here() looks at workers only.
void begin_here() noexcept {
  Worker* worker = this_thread_worker();
  if (worker == nullptr) return;
  worker->counts.here_begun.add();
  // The load comes first, because a store at every call would take the cache line of `ran_here`
  // from the other workers.
  std::atomic<bool>& ran_here = worker->core.ran_here;
  if (!ran_here.load(std::memory_order_relaxed)) ran_here.store(true, std::memory_order_relaxed);
}
void end_here() noexcept {
  Worker* worker = this_thread_worker();
  if (worker != nullptr) worker->counts.here_ended.add();
}

namespace {

// Joins a task from an ordinary thread, or from a worker outside of tasks: the thread sleeps until
// the task of `record` has ended.
void sleep_until_ended(TaskRecord* record) {
  Sleeper sleeper;
  if (!record->joiner.enlist(reinterpret_cast<std::uintptr_t>(&sleeper) | kSleeperBit)) return;
  while (sleeper.ended.load(std::memory_order_acquire) == 0)
    RealAtomics::sleep(sleeper.ended, 0, 0);
}

}  // namespace

Outcome join(TaskRecord* record) noexcept {
  Worker* worker = this_thread_worker();
  if (worker != nullptr && worker->current != nullptr) {
    worker->join(record);
  } else {
    sleep_until_ended(record);
  }
  Outcome outcome = outcome_of(record);
  Worker::release(record, this_thread_worker());
  return outcome;
}

void detach(TaskRecord* record) noexcept {
  if (record->joiner.detach()) return;
  record->thrown = nullptr;
  Worker::release(record, this_thread_worker());
}

// --- variables of a task (ult::Local) -------------------------------------------------------

namespace {

// The next key for variables of tasks. Keys are never reused. relaxed: a program uses a key only
// after the Local's constructor returns.
std::atomic<int> next_key{0};
std::atomic<void (*)(void*)> destroyers[kLocalKeys];

// Destroys the values that `locals` has. False: there were none.
bool destroy_values(void** locals) {
  bool some = false;
  for (int key = 0; key < kLocalKeys; ++key) {
    void* value = std::exchange(locals[key], nullptr);
    if (value == nullptr) continue;
    destroyers[key].load(std::memory_order_relaxed)(value);
    some = true;
  }
  return some;
}

// A destructor may use variables of the task and so make new values. The record therefore keeps the
// array meanwhile.
void drop_locals(TaskRecord* record) {
  for (int round = 0; round < kLocalRounds && destroy_values(record->locals); ++round) {
  }
  delete[] std::exchange(record->locals, nullptr);
}

}  // namespace

int make_local_key(void (*destroy)(void*)) noexcept {
  int key = next_key.load(std::memory_order_relaxed);
  do {
    if (key == kLocalKeys) return -1;
  } while (!next_key.compare_exchange_weak(key, key + 1, std::memory_order_relaxed));
  destroyers[key].store(destroy, std::memory_order_relaxed);
  return key;
}

void** local(int key) noexcept {
  TaskRecord* record = self();
  if (record == nullptr) return nullptr;
  if (record->locals == nullptr) record->locals = new (std::nothrow) void* [kLocalKeys] {};
  return record->locals == nullptr ? nullptr : record->locals + key;
}

}  // namespace mh::ult::detail
