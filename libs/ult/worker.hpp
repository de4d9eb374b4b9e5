// SPDX-License-Identifier: BSD-3-Clause
// A worker chooses its next task, switches to the task, steals and sleeps.
//
// The order of choice: first signalled tasks, then fresh tasks (which have not begun), then tasks
// that yielded. A task that the worker itself signalled comes before the other signalled tasks.
// Config::order decides among fresh tasks. Every kFairTurns-th choice takes the next one of the
// three sets in turn and goes around its slots, so no ready task waits forever.
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
// The time in nanoseconds after which a victim that has chosen no new task counts as busy with one
// long task, so its signalled tasks may be stolen.
inline constexpr double kPatienceNs = 2000;

class alignas(kCacheLine) Worker {
 public:
  Worker(SchedulerCore& owner, std::uint32_t number);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] bool ok() const { return records_.ok(); }
  // The main function of the worker's thread. Returns when the scheduler ends.
  void live();

  // --- called on this worker's thread, in a task ---
  // Returns a record for a new task, with a slot of this worker; nullptr: no slot is free.
  TaskRecord* draft();
  void publish(TaskRecord* record, std::uint32_t slot);
  void yield();
  void wait();
  void join(TaskRecord* record);
  bool take_child(GroupCounter& group);

  // --- called by any thread ---
  TaskRecord* draft_shared();
  void publish_shared(TaskRecord* record, std::uint32_t slot, const Worker* caller);
  // Sets the slot's bit in this worker's set of signalled tasks, and wakes the worker if it sleeps
  // or dozes. `caller`: the worker that calls; nullptr from any other thread.
  void signal(std::uint32_t slot, const Worker* caller);
  // Called on this worker's thread only. Signals a task of another worker, its home `at`. If that
  // worker sleeps and should not be woken, this worker takes the task over. False: the caller still
  // has to signal the task.
  bool take_over(TaskRecord* record, Location at);
  // Called on this worker's thread only. Signals one of its own tasks through the task's state,
  // without a bit in the shared set.
  void signal_own(TaskRecord* record, Location location);
  // Frees the slot of an ended task's record. `here`: the calling worker, or nullptr on any other
  // thread.
  static void release(TaskRecord* record, Worker* here);
  [[nodiscard]] static bool is_home(const Worker* worker, const TaskRecord* record, Location at);
  [[nodiscard]] DebugWorker debug() const;
  // Returns the number of this worker's tasks that still wait for a signal. Call after all threads
  // have ended.
  [[nodiscard]] std::uint64_t count_blocked() const;

  SchedulerCore& core;
  const std::uint32_t id;
  char name[16] = {};
  TaskRecord* current = nullptr;  // this worker's thread only; nullptr: the root runs
  std::thread thread;
  Doorbell<RealAtomics> bell;
  WorkerCounts counts;
  std::atomic<bool> telling{false};  // see Telling; this worker's thread writes it

 private:
  friend class SchedulerCore;

  // --- the choice of the next task (choose.cpp) ---
  TaskRecord* choose();
  TaskRecord* choose_in_turn();
  TaskRecord* choose_signalled();
  TaskRecord* choose_fresh();
  TaskRecord* choose_started();
  TaskRecord* choose_own(OwnBits<RealAtomics>& set, std::uint32_t slot);

  // --- a worker without tasks: stealing and sleeping (idle.cpp) ---
  TaskRecord* next_or_sleep();
  TaskRecord* spin_for_task();
  TaskRecord* poll_quietly();
  TaskRecord* poll_parked();
  bool is_one_too_many();
  TaskRecord* steal();
  TaskRecord* work_loot();
  TaskRecord* rob(Worker& victim);
  TaskRecord* rob_set(Worker& victim, const OwnBits<RealAtomics>& set);
  TaskRecord* rob_signalled(Worker& victim);
  bool is_busy(const Worker& victim);
  void nap();
  void tell_if_stuck();
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

  // --- switching between tasks (switch.cpp) ---
  // Switches from the current context to the task `next` (nullptr: the root). Returns when a worker
  // resumes the current context. The result is that worker.
  Worker* leave(After after, TaskRecord* next);
  void arrive(void* from, bool first);
  void show(TaskRecord* record);
  void migrate(TaskRecord* record);
  // Gives `next` a stack if the task has none, and returns `next`. If no stack is left, ends `next`
  // without running it (Code::full), and tries another ready task. nullptr: no task is ready.
  TaskRecord* with_stack(TaskRecord* next);
  [[noreturn]] static void enter(void* from, Worker* worker);
  static void adopt_thread_stack(SanitizerFibre& fibre);

  // --- the end of a task (finish.cpp) ---
  static void run_body(TaskRecord* record);
  TaskRecord* finish(TaskRecord* record);
  TaskRecord* tell_joiner(TaskRecord* record);
  TaskRecord* tell_group(TaskRecord* record);
  TaskRecord* wake(TaskRecord* waiter);
  [[nodiscard]] bool may_run(const TaskRecord* record) const;
  TaskRecord* refuse(TaskRecord* record);
  static void note(GroupCounter& group, TaskRecord* record);
  [[nodiscard]] bool has_room() const;
  Worker* run_inline(TaskRecord* record);

  // --- task slots, and publishing of ready tasks (worker.cpp) ---
  std::uint32_t take_slot(std::uint32_t after);
  bool find_free_slots(std::uint32_t after);
  TaskRecord* record_at(std::uint32_t slot);
  TaskRecord* prepare(std::uint32_t slot);
  void announce();

  friend struct FibreEntry;

  // The memory of this worker's task records, fixed at the start.
  RecordMemory records_;
  // The table from slots to task records. release: migrate() and record_at(); acquire: readers,
  // which then see the record.
  std::unique_ptr<std::atomic<TaskRecord*>[]> slots_;

  // Only this worker's thread uses the fields from here to fruitless_.
  alignas(kCacheLine) void* root_ = nullptr;  // context of the root; valid while a task runs
  Exceptions root_exceptions_;
  SanitizerFibre root_fibre_;
  TaskRecord* leaving_ = nullptr;  // the task that leave() left, for arrive()
  After after_ = After::left_root;
  Stack* dead_stack_ = nullptr;
  void* exceptions_ = nullptr;  // the thread's __cxa_get_globals()
  StackPool stacks_;
  Loot loot_;
  std::vector<CounterReading> seen_;
  std::uint32_t free_count_ = 0;  // bits in free_own_
  // The slots at which the next searches of signals_, fresh_ and started_ begin.
  std::uint32_t signal_cursor_ = 0;
  std::uint32_t fresh_cursor_ = 0;
  std::uint32_t started_cursor_ = 0;
  std::uint32_t random_;      // state of the choice of victims
  std::int64_t doze_ns_ = 0;  // of the last doze; a successful steal sets it to 0
  bool fruitless_ = false;    // the worker woke and has found no task since
  // A task that this worker has signalled itself and runs next. Like a bit in fresh_, the pointer
  // may be stale, if a thief has claimed the task. This worker writes the pointer; thieves read it.
  std::atomic<TaskRecord*> next_{nullptr};
  // The number of times that this worker has chosen a task. Thieves read the number, to see whether
  // the worker is busy with one long task (is_busy()).
  Count turns_;

  BitMemory fresh_words_, started_words_, signal_words_, free_own_words_, free_shared_words_;
  OwnBits<RealAtomics> fresh_, started_, free_own_;
  SharedBits<RealAtomics> signals_, free_shared_;
  // The number of task switches of all workers, and the time at which this worker last saw the
  // number change (tell_if_stuck()). Only this worker's thread uses `quiet_`.
  CounterReading quiet_;
};

// Returns the worker of the calling thread; nullptr: the thread is no worker. Must not be inlined:
// a task may run on another thread than at the last call, and an inlining compiler may reuse the
// address of a thread_local variable.
Worker* this_thread_worker();

// The number of threads that are no workers and have a Telling.
extern std::atomic<std::uint32_t> outside_tellers;

// Marks the calling thread while it ends the wait of a task and then signals the task. The task may
// see the end of its wait before the signal, and its scheduler may then end. A scheduler therefore
// ends only after the threads that were marked have signalled (await_tellers() in core.cpp).
// relaxed: the release that ends the wait publishes the mark, too.
class Telling {
 public:
  explicit Telling(Worker* here) : here_(here) {
    if (here_ != nullptr) {
      here_->telling.store(true, std::memory_order_relaxed);
    } else {
      outside_tellers.fetch_add(1, std::memory_order_relaxed);
    }
  }
  // release: partner is the acquire in await_tellers().
  ~Telling() {
    if (here_ != nullptr) {
      here_->telling.store(false, std::memory_order_release);
    } else {
      outside_tellers.fetch_sub(1, std::memory_order_release);
    }
  }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

 private:
  Worker* const here_;
};

}  // namespace mh::ult::detail
