// SPDX-License-Identifier: BSD-3-Clause
// The data structures of schedulers, workers and tasks.
//
//   SchedulerCore  one scheduler: its workers, the watch over sleepers, the depot of stacks
//   Worker         one thread; its sets of bits; the table from slots to records
//   TaskRecord     one task, 256 bytes
//   slot           a number below Config::tasks_per_worker: a task's index in its home's bit sets
//   home           the worker that a task's slot belongs to
//   location       home and slot, in one word, because a migration changes both at once
//
// Sets of a worker (one bit for each slot):
//
//   fresh        written by the worker    tasks that the worker spawned and that have not begun
//   started      written by the worker    tasks that ran and are ready again (yield)
//   signals      written by any thread    tasks with a signal, or spawned by other threads
//   free_own     written by the worker    free slots that only the worker gives out
//   free_shared  written by any thread    free slots
//
// Invariants:
//   * A ready task has its bit in at least one of fresh, started and signals of its home. There are
//     two exceptions: a thread has made the task ready and is about to set the bit, or the task is
//     in Worker::next_.
//   * A bit in fresh, started or signals only says "look": the task in that slot may be running or
//     ended, or the slot may have another task. The task's state decides (state.hpp).
//   * The table of slots is a permutation: each slot has one record, and each record has one slot.
//     A migration swaps the records of two slots. Records stay allocated until the scheduler ends,
//     so a pointer to a record is always safe to read.
//   * At rest, each slot has a task, or has its bit in exactly one of free_own and free_shared.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/atomics.hpp"
#include "base/cacheline.hpp"
#include "manyhands/ult/group.hpp"
#include "manyhands/ult/scheduler.hpp"
#include "ult/bits.hpp"
#include "ult/debug.hpp"
#include "ult/doorbell.hpp"
#include "ult/join_word.hpp"
#include "ult/stack.hpp"
#include "ult/state.hpp"

namespace mh::ult::detail {

class Worker;

inline constexpr int kLocalKeys = 64;
inline constexpr int kLocalRounds = 4;  // as PTHREAD_DESTRUCTOR_ITERATIONS

// A copy of the C++ runtime's per-thread data about exceptions in flight (__cxa_get_globals()).
// Each task has its own copy; a switch between tasks exchanges the copies.
struct Exceptions {
  void* caught = nullptr;
  std::uintptr_t uncaught = 0;
};

struct alignas(8) Location {
  std::uint32_t worker;
  std::uint32_t slot;
  bool operator==(const Location&) const = default;
};
static_assert(std::atomic<Location>::is_always_lock_free);

// A mark in TaskRecord::joiner, which names the joiner of a task. The name is the address of a
// task's TaskRecord, or the address of an ordinary thread's Sleeper with this bit set.
inline constexpr std::uintptr_t kSleeperBit = 1;

// The word on which an ordinary thread sleeps while it joins a task. The worker on which the task
// ends sets the word to 1.
struct Sleeper {
  RealAtomics::Atomic<std::uint32_t> ended{0};
};

struct alignas(kCacheLine) TaskRecord {
  TaskRecord(SchedulerCore* owner, bool alone) : state(alone), core(owner) {}

  // Any thread may move `state`. The other fields, up to `group`, belong to the worker that runs
  // the task.
  TaskState<RealAtomics> state;
  bool borrows = false;                // the task runs on its joiner's stack
  Code refused = Code::ok;             // full: the task never ran, no stack could be mapped
  void* context = nullptr;             // saved context; valid while the task is off its stack
  std::atomic<Stack*> stack{nullptr};  // nullptr: not begun. relaxed: claiming the state orders it
  Exceptions exceptions;
  void** locals = nullptr;  // kLocalKeys values, allocated at the first use
  GroupCounter* group = nullptr;

  // Signallers and joiners read the fields from here to `thrown`. The spawner writes them, a
  // migration writes `location`, and the joiner writes `joiner` once. seq_cst on location: the
  // store in migrate() pairs with the loads in send_signal().
  alignas(kCacheLine) std::atomic<Location> location{Location{0, 0}};
  JoinWord<RealAtomics> joiner;
  SchedulerCore* const core;  // fixed, because a late signaller may read it at any time
  const char* name = nullptr;
  Body body = nullptr;
  std::exception_ptr thrown;  // published by the exchange of `joiner`, or by GroupCounter::left

  alignas(kCacheLine) std::byte storage[kStorage];
};
static_assert(sizeof(TaskRecord) == 256);

// The reason why a context (a task's or the root's) was left, and thus its next state. The context
// that the worker switches to sets that state, because only then the stack that was left is unused.
enum class After : std::uint8_t { left_root, yielded, blocked, ended };

// A counter that one worker writes and any thread reads. relaxed: the counters publish no other
// data.
class Count {
 public:
  void add() { value_.store(get() + 1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct WorkerCounts {
  Count spawned, finished, inlined, switches, stolen, migrated, refused, slept, parked;
  // Children that tasks of this worker began, and ended, to run themselves inside Group::spawn(),
  // because no slot was free. A task may change its worker in between.
  Count here_begun, here_ended;
};

// Memory for the words of one set of bits (bits.hpp), all 0 at the start, aligned to a cache line.
class BitMemory {
 public:
  using Word = RealAtomics::Atomic<std::uint64_t>;
  explicit BitMemory(BitSetShape shape)
      : words_(new (std::align_val_t{kCacheLine}) Word[shape.words()]{}) {}
  [[nodiscard]] Word* words() { return words_.get(); }

 private:
  struct Free {
    void operator()(Word* words) const { ::operator delete[](words, std::align_val_t{kCacheLine}); }
  };
  std::unique_ptr<Word[], Free> words_;
};

// The memory for the TaskRecords of one worker. Linux allocates a page at the first touch, so
// unused records cost no memory.
class RecordMemory {
 public:
  explicit RecordMemory(std::uint32_t slots);
  ~RecordMemory();
  RecordMemory(const RecordMemory&) = delete;
  RecordMemory& operator=(const RecordMemory&) = delete;
  [[nodiscard]] bool ok() const { return records_ != nullptr; }
  [[nodiscard]] TaskRecord* at(std::uint32_t slot) { return records_ + slot; }

 private:
  std::size_t bytes_;
  TaskRecord* records_ = nullptr;
};

// A thief's copy of one word of its victim's set of tasks. The copy reserves nothing: the thief
// claims each task when it comes to the task's bit.
struct Loot {
  Worker* victim = nullptr;
  std::uint32_t first_slot = 0;
  std::uint64_t bits = 0;
};

// The last observation of a counter, and its time. A thief looks at the number of times that its
// victim has chosen a task. While the number still changes, the thief leaves signalled tasks to the
// victim. An idle worker looks at the number of task switches of all workers (tell_if_stuck()).
struct CounterReading {
  std::uint64_t count = 0;
  std::uint64_t ticks = 0;
};

// The number of cores that this process may keep busy, because other processes use the same cores
// (share_cores()). relaxed: a hint.
inline std::atomic<std::uint32_t> cores_of_share{~0U};

class SchedulerCore {
 public:
  SchedulerCore(const Config& wanted, std::uint32_t workers_wanted);
  ~SchedulerCore();
  SchedulerCore(const SchedulerCore&) = delete;
  SchedulerCore& operator=(const SchedulerCore&) = delete;

  [[nodiscard]] Status launch();
  // Ends the scheduler: tells the workers to stop, and returns when no task is ready and all
  // threads have ended. May be called twice.
  void stop();
  // Returns the number of tasks that still wait for a signal and will never run again. Call after
  // stop().
  [[nodiscard]] std::uint64_t abandoned() const;
  // Returns the number of cores for this process's workers: all that the process may use, or fewer
  // after share_cores().
  [[nodiscard]] std::uint32_t own_cores() const {
    return std::min(cores, cores_of_share.load(std::memory_order_relaxed));
  }
  [[nodiscard]] bool shares_cores() const { return own_cores() < cores; }
  // True: the scheduler has more workers than this process has cores, so idle workers do not spin.
  [[nodiscard]] bool oversubscribed() const { return count > own_cores(); }
  [[nodiscard]] std::uint32_t awake() const {
    return count - resting.load(std::memory_order_relaxed);
  }
  // True: some task runs a child itself inside Group::spawn(), because no slot was free. A hint:
  // the counters of the workers are read one after the other.
  [[nodiscard]] bool runs_a_child_here() const;
  // True: other processes use the same cores, and as many workers are awake as this process has
  // cores. One worker more would take a core from another process.
  [[nodiscard]] bool has_its_share() const { return shares_cores() && awake() >= own_cores(); }
  // True: more workers are awake than this process has cores. Some of them then share a core.
  [[nodiscard]] bool crowds() const {
    return shares_cores() ? awake() > own_cores() : oversubscribed();
  }
  // True: other processes use the same cores, and more workers are awake than this process has
  // cores. The workers beyond that number take cores from the other processes.
  [[nodiscard]] bool takes_others_cores() const { return shares_cores() && crowds(); }
  [[nodiscard]] bool has_parked() const { return parked.load(std::memory_order_relaxed) != 0; }
  // Wakes one sleeping worker, if there is any, to steal a task that worker `from` has published.
  void ring_a_sleeper(std::uint32_t from);

  // The fields from here to `debug` are set when the scheduler starts, and not replaced later.
  const Config config;
  const std::uint32_t count;
  const BitSetShape shape;
  const std::uint32_t cores;  // of this process
  const bool stealing;        // config.steal, and at least two workers
  const std::uint64_t spin_ticks;
  const std::uint64_t patience_ticks;
  StackDepot depot;
  std::vector<std::unique_ptr<Worker>> workers;
  std::optional<DebugEntry> debug;

  // All workers and spawners use the fields from here on, which change while the scheduler runs.
  Watch<RealAtomics> watch;
  // Counts the spawns that name no worker (kNoWorker), which go to the workers in turn. relaxed:
  // the counter only spreads spawns over the workers.
  std::atomic<std::uint32_t> next_worker{0};
  std::atomic<std::uint64_t> refused{0};  // spawns by draft_anywhere() that found no slot
  // The number of tasks that are parked in MPI calls of libmanyhands.so (parking.hpp). relaxed: a
  // worker that parks a task counts the task before that worker idles and reads the number.
  std::atomic<std::uint32_t> parked{0};
  // The number of workers that sleep or doze (doorbell.hpp): a dozing worker is woken by fewer
  // events than a sleeping one. relaxed: a hint.
  std::atomic<std::uint32_t> resting{0};
  // The words for the end of the scheduler. stop() sets `stopping`; each worker that then finds no
  // task adds itself to `done` (all_done()). seq_cst: the words are rarely used, so the strongest
  // order costs nothing.
  std::atomic<bool> stopping{false};
  std::atomic<std::uint32_t> done{0};
  // True once a task has run a child itself (begin_here()). relaxed: a hint. Until then idle
  // workers need not read the counters of all others.
  std::atomic<bool> ran_here{false};
  // True once Worker::tell_if_stuck() has printed its message. relaxed: publishes no other data.
  std::atomic<bool> told_stuck{false};
  SchedulerCore* next_live = nullptr;  // in the list of core.cpp, whose mutex guards it
};

}  // namespace mh::ult::detail
