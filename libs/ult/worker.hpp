// SPDX-License-Identifier: BSD-3-Clause
// One worker: chooses what to run next, switches to it, steals, sleeps.
//
// Order of choice: signalled tasks (the one that the worker itself signalled first), then spawned
// ones (newest first, or oldest), then those that yielded. Every kFairTurns-th choice takes the
// three in turn instead, each around its slots, so that no ready task waits for ever. A task that
// gives up its stack makes the choice itself and jumps straight to the next one; only a worker
// without work returns to the stack of its thread (the *root*).
//
// Functions say who calls them: "this worker" is the thread itself, on the root or in a task.
#pragma once

#include "ult/types.hpp"

namespace mh::ult::detail {

inline constexpr std::uint64_t kFairTurns = 64;
// A victim that has chosen nothing for so long is taken to be busy with one long task.
inline constexpr double kPatienceNs = 2000;

class alignas(kCacheLine) Worker {
 public:
  Worker(Core& owner, std::uint32_t number);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] bool ok() const { return records_.ok(); }
  // The thread's whole life.
  void live();

  // --- this worker, in a task ---
  // A record for a new task, with a slot of this worker; nullptr: none free.
  Record* draft();
  void publish(Record* record, std::uint32_t slot);
  void yield();
  void wait();
  void join(Record* record);
  bool take_child(Group& group);

  // --- any thread ---
  Record* draft_shared();
  void publish_shared(Record* record, std::uint32_t slot, const Worker* caller);
  // Sets the bit of a task of this worker and wakes the worker if it sleeps.
  void signal(std::uint32_t slot, const Worker* caller);
  // This worker: the same for a task of its own, by its state.
  void signal_own(Record* record, Location location);
  // `here`: the calling worker, or nullptr. Gives the slot back.
  static void release(Record* record, Worker* here);
  [[nodiscard]] static bool is_home(const Worker* worker, const Record* record, Location at);
  [[nodiscard]] DebugWorker debug() const;
  // After the end of all threads.
  [[nodiscard]] std::uint64_t count_blocked() const;

  Core& core;
  const std::uint32_t id;
  char name[16] = {};
  Record* current = nullptr;  // this worker: what runs; nullptr on the root
  std::thread thread;
  Doorbell<Machine> bell;
  Counts counts;

 private:
  friend class Core;

  // --- choosing (choose.cpp) ---
  Record* choose();
  Record* choose_in_turn();
  Record* choose_signalled();
  Record* choose_fresh();
  Record* choose_started();
  Record* choose_own(OwnBits<Machine>& set, std::uint32_t slot);

  // --- idle: stealing and sleeping (idle.cpp) ---
  Record* find();
  Record* seek();
  Record* look_quietly();
  Record* steal();
  Record* work_loot();
  Record* rob(Worker& victim);
  Record* rob_set(Worker& victim, const OwnBits<Machine>& set);
  Record* rob_signalled(Worker& victim);
  void nap();
  [[nodiscard]] bool has_signalled() const {
    return next_.load(std::memory_order_relaxed) != nullptr || signals_.first_from(0) != kNoSlot;
  }
  [[nodiscard]] bool has_work() const;
  [[nodiscard]] bool has_prey() const;
  [[nodiscard]] bool others_wait() const;
  bool all_done();

  // --- switching (switch.cpp) ---
  // Leaves the current context for `next` (nullptr: the root). Returns when something comes back,
  // perhaps on another worker, which is the result.
  Worker* leave(After after, Record* next);
  void arrive(void* from, bool first);
  void show(Record* record);
  void migrate(Record* record);
  // `next`, or another one, with a stack; a task for which there is no stack ends as refused.
  Record* with_stack(Record* next);
  [[noreturn]] static void enter(void* from, Worker* worker);
  static void adopt_thread_stack(Fibre& fibre);

  // --- ending (finish.cpp) ---
  static void run_body(Record* record);
  Record* finish(Record* record);
  Record* tell_joiner(Record* record);
  Record* tell_group(Record* record);
  Record* wake(Record* waiter);
  [[nodiscard]] bool may_run(const Record* record) const;
  Record* refuse(Record* record);
  static void note(Group& group, Record* record);
  [[nodiscard]] bool has_room() const;
  Worker* run_inline(Record* record);

  // --- slots and publishing (worker.cpp) ---
  std::uint32_t take_slot(std::uint32_t after);
  bool find_free_slots(std::uint32_t after);
  Record* record_at(std::uint32_t slot);
  Record* prepare(std::uint32_t slot);
  void announce();

  friend struct Entry;

  // Fixed at start.
  RecordMemory records_;
  std::unique_ptr<std::atomic<Record*>[]> slots_;  // release and acquire: see work_loot()

  // This worker alone.
  alignas(kCacheLine) void* root_ = nullptr;  // context of the root; off the root only
  Exceptions root_exceptions_;
  Fibre root_fibre_;
  Record* leaving_ = nullptr;  // for arrive()
  After after_ = After::left_root;
  Stack* dead_stack_ = nullptr;
  void* exceptions_ = nullptr;  // the thread's
  StackPool stacks_;
  Loot loot_;
  std::vector<Seen> seen_;
  std::uint32_t free_count_ = 0;
  std::uint32_t signal_cursor_ = 0;
  std::uint32_t fresh_cursor_ = 0;
  std::uint32_t started_cursor_ = 0;
  std::uint32_t random_;
  std::int64_t doze_ns_ = 0;
  bool fruitless_ = false;  // woken, and nothing found since
  // A task that this worker has signalled itself, to run next: one more place for a bit, as it
  // were. Written by this worker, like fresh_; read by thieves.
  std::atomic<Record*> next_{nullptr};
  // Choices made: this worker writes, thieves read.
  Count turns_;

  BitMemory fresh_words_, started_words_, signal_words_, free_own_words_, free_shared_words_;
  OwnBits<Machine> fresh_, started_, free_own_;
  SharedBits<Machine> signals_, free_shared_;
};

// The worker that this thread is; nullptr on other threads. Not inlined: a task may have come to
// another thread since the last call, and a compiler may keep the address of a thread's variable.
Worker* this_thread_worker();

}  // namespace mh::ult::detail
