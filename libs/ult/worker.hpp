// SPDX-License-Identifier: BSD-3-Clause
// A worker chooses its next task, switches to the task, steals and sleeps.
//
// The order of choice: first signalled tasks, then fresh tasks, then tasks that yielded. A task
// that the worker itself signalled comes before the other signalled tasks. Config::order decides
// among fresh tasks. Every kFairTurns-th choice takes the next one of the three sets in turn and
// goes around its slots, so no ready task waits forever.
//
// A task that leaves its stack chooses the next task itself and jumps straight to that task. Only a
// worker without tasks returns to the stack of its thread (the *root*).
//
// In comments, "on this worker's thread" means: on the root of that thread, or in a task that the
// thread runs.
#pragma once

#include "ult/types.hpp"

namespace mh::ult::detail {

inline constexpr std::uint64_t kFairTurns = 64;
// A victim that has chosen no task for this time counts as busy with one long task.
inline constexpr double kPatienceNs = 2000;

class alignas(kCacheLine) Worker {
 public:
  Worker(SchedulerCore& owner, std::uint32_t number);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] bool ok() const { return records_.ok(); }
  // The main function of the worker's thread.
  void live();

  // --- on this worker's thread, in a task ---
  // Returns a record for a new task, with a slot of this worker; nullptr: no slot is free.
  TaskRecord* draft();
  void publish(TaskRecord* record, std::uint32_t slot);
  void yield();
  void wait();
  void join(TaskRecord* record);
  bool take_child(Group& group);

  // --- any thread ---
  TaskRecord* draft_shared();
  void publish_shared(TaskRecord* record, std::uint32_t slot, const Worker* caller);
  // Sets the slot's bit in this worker's signals, and wakes the worker if it sleeps or dozes.
  // `caller`: the worker that calls; nullptr from any other thread.
  void signal(std::uint32_t slot, const Worker* caller);
  // On this worker's thread only. Signals a task whose home `at` rests: takes the task over instead
  // of waking the home. False: the task has no signal yet.
  bool take_over(TaskRecord* record, Location at);
  // On this worker's thread only. Signals one of its own tasks through the task's state.
  void signal_own(TaskRecord* record, Location location);
  // Frees the slot of a record. `here`: the calling worker, or nullptr.
  static void release(TaskRecord* record, Worker* here);
  [[nodiscard]] static bool is_home(const Worker* worker, const TaskRecord* record, Location at);
  [[nodiscard]] DebugWorker debug() const;
  // Counts the tasks that still wait for a signal. Call after all threads have ended.
  [[nodiscard]] std::uint64_t count_blocked() const;

  SchedulerCore& core;
  const std::uint32_t id;
  char name[16] = {};
  TaskRecord* current = nullptr;  // this worker's thread only; nullptr: the root runs
  std::thread thread;
  Doorbell<RealAtomics> bell;
  WorkerCounts counts;

 private:
  friend class SchedulerCore;

  // --- choosing (choose.cpp) ---
  TaskRecord* choose();
  TaskRecord* choose_in_turn();
  TaskRecord* choose_signalled();
  TaskRecord* choose_fresh();
  TaskRecord* choose_started();
  TaskRecord* choose_own(OwnBits<RealAtomics>& set, std::uint32_t slot);

  // --- idle: stealing and sleeping (idle.cpp) ---
  TaskRecord* next_or_sleep();
  TaskRecord* spin_for_task();
  TaskRecord* look_quietly();
  TaskRecord* look_at_parked();
  TaskRecord* steal();
  TaskRecord* work_loot();
  TaskRecord* rob(Worker& victim);
  TaskRecord* rob_set(Worker& victim, const OwnBits<RealAtomics>& set);
  TaskRecord* rob_signalled(Worker& victim);
  bool is_busy(const Worker& victim);
  void nap();
  void doze();
  template <class Work>
  void rest(Sleep how, std::int64_t limit_ns, Work work);
  [[nodiscard]] bool has_signalled() const {
    return next_.load(std::memory_order_relaxed) != nullptr || signals_.first_from(0) != kNoSlot;
  }
  [[nodiscard]] bool has_work() const;
  [[nodiscard]] bool has_prey() const;
  [[nodiscard]] bool others_wait() const;
  bool all_done();

  // --- switching (switch.cpp) ---
  // Switches from the current context to `next` (nullptr: the root). Returns when a worker resumes
  // the current context. The result is that worker.
  Worker* leave(After after, TaskRecord* next);
  void arrive(void* from, bool first);
  void show(TaskRecord* record);
  void migrate(TaskRecord* record);
  // Gives `next` a stack and returns `next`. If no stack is left, ends `next` without running it
  // (Code::full), and tries another ready task. nullptr: no task is ready.
  TaskRecord* with_stack(TaskRecord* next);
  [[noreturn]] static void enter(void* from, Worker* worker);
  static void adopt_thread_stack(Fibre& fibre);

  // --- ending (finish.cpp) ---
  static void run_body(TaskRecord* record);
  TaskRecord* finish(TaskRecord* record);
  TaskRecord* tell_joiner(TaskRecord* record);
  TaskRecord* tell_group(TaskRecord* record);
  TaskRecord* wake(TaskRecord* waiter);
  [[nodiscard]] bool may_run(const TaskRecord* record) const;
  TaskRecord* refuse(TaskRecord* record);
  static void note(Group& group, TaskRecord* record);
  [[nodiscard]] bool has_room() const;
  Worker* run_inline(TaskRecord* record);

  // --- slots and publishing (worker.cpp) ---
  std::uint32_t take_slot(std::uint32_t after);
  bool find_free_slots(std::uint32_t after);
  TaskRecord* record_at(std::uint32_t slot);
  TaskRecord* prepare(std::uint32_t slot);
  void announce();

  friend struct FibreEntry;

  // Fixed at start.
  RecordMemory records_;
  // The table from slots to records. release in migrate() and record_at(), acquire in readers.
  std::unique_ptr<std::atomic<TaskRecord*>[]> slots_;

  // Only this worker's thread uses the fields up to fruitless_.
  alignas(kCacheLine) void* root_ = nullptr;  // context of the root; valid while a task runs
  Exceptions root_exceptions_;
  Fibre root_fibre_;
  TaskRecord* leaving_ = nullptr;  // the task that leave() left, for arrive()
  After after_ = After::left_root;
  Stack* dead_stack_ = nullptr;
  void* exceptions_ = nullptr;  // the thread's __cxa_get_globals()
  StackPool stacks_;
  Loot loot_;
  std::vector<Seen> seen_;
  std::uint32_t free_count_ = 0;  // bits in free_own_
  // The slots at which the next searches of signals_, fresh_ and started_ begin.
  std::uint32_t signal_cursor_ = 0;
  std::uint32_t fresh_cursor_ = 0;
  std::uint32_t started_cursor_ = 0;
  std::uint32_t random_;      // state of the choice of victims
  std::int64_t doze_ns_ = 0;  // of the last doze; a successful steal sets it to 0
  bool fruitless_ = false;    // the worker woke and has found no task since
  // A task that this worker has signalled itself and runs next. Like a bit in fresh_, the pointer
  // may be stale. This worker writes the pointer; thieves read it.
  std::atomic<TaskRecord*> next_{nullptr};
  // The number of this worker's choices of a task. Thieves read the number (is_busy()).
  Count turns_;

  BitMemory fresh_words_, started_words_, signal_words_, free_own_words_, free_shared_words_;
  OwnBits<RealAtomics> fresh_, started_, free_own_;
  SharedBits<RealAtomics> signals_, free_shared_;
};

// Returns the worker of the calling thread; nullptr: the thread is no worker. Must not be inlined:
// a task may run on another thread than at the last call, and an inlining compiler may reuse the
// address of a thread_local variable.
Worker* this_thread_worker();

}  // namespace mh::ult::detail
