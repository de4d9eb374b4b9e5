// SPDX-License-Identifier: BSD-3-Clause
// The data of the scheduler: what a task, a worker and a scheduler are made of.
//
//   Core      one scheduler: its workers, the watch over sleepers, the depot of stacks
//   Worker    one thread; its sets of bits; the table from slots to records
//   Record    one task, 256 bytes
//   slot      a number below Config::tasks_per_worker: the place of a task in its home's bit sets
//   home      the worker that a task's slot belongs to
//   location  home and slot, in one word, because a task that migrates changes both at once
//
// Sets of a worker (one bit for each slot):
//
//   fresh        written by the worker   tasks it spawned that nobody has begun
//   started      written by the worker   tasks that ran and are ready again (yield)
//   signals      written by anyone       tasks that were signalled, or spawned here by others
//   free_own     written by the worker   free slots that only the worker gives out
//   free_shared  written by anyone       free slots
//
// Invariants:
//   * A ready task has its bit in at least one of fresh, started and signals of its home, except
//     while the one who made it ready is about to set the bit.
//   * A bit in any of these three says "look": the task in that slot may be running, ended, or
//     another one. State decides (state.hpp).
//   * The table of slots is a permutation: each slot has one record and each record one slot. A
//     migration swaps the records of two slots. Records are never given back before the scheduler
//     ends, so a pointer to one is always good to look at.
//   * At rest, each slot is used by a task or has its bit in exactly one of free_own, free_shared.
#pragma once

#include <pthread.h>

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

// What the C++ run time keeps for each thread about exceptions in flight; each task has its own.
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

// Names in Record::joiner: a Record, or a Sleeper with this bit.
inline constexpr std::uintptr_t kSleeperBit = 1;

// An ordinary thread that joins.
struct Sleeper {
  Machine::Atomic<std::uint32_t> ended{0};
};

struct alignas(kCacheLine) Record {
  Record(Core* owner, bool alone) : state(alone), core(owner) {}

  // Who runs it. `state` is moved by anyone; the rest belongs to the worker that runs the task.
  State<Machine> state;
  bool borrows = false;                // runs on the stack of the task that joined it
  Code refused = Code::ok;             // why it never ran
  void* context = nullptr;             // where to jump to; off its stack only
  std::atomic<Stack*> stack{nullptr};  // none: not begun. relaxed: claiming the state orders it
  Exceptions exceptions;
  void** locals = nullptr;  // kLocalKeys values, made when the first is asked for
  Group* group = nullptr;

  // Read by those who signal and join; written when the task is made, when it migrates, and once
  // by whoever joins. seq_cst on location: partner is the other access of signal() and migrate().
  alignas(kCacheLine) std::atomic<Location> location{Location{0, 0}};
  JoinWord<Machine> joiner;
  Core* const core;  // fixed for life: a late signaller reads it at any time
  const char* name = nullptr;
  Body body = nullptr;
  std::exception_ptr thrown;  // published by joiner, or by Group::left

  alignas(kCacheLine) std::byte storage[kStorage];
};
static_assert(sizeof(Record) == 256);

// What the next context does for the one that was left, once nothing runs on its stack any more.
enum class After : std::uint8_t { left_root, yielded, blocked, ended };

// Counts of one worker: written by it, read by anyone.
class Count {
 public:
  void add() { value_.store(get() + 1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct Counts {
  Count spawned, finished, inlined, switches, stolen, migrated, refused, slept;
};

// Zeroed words for a set, on cache lines of their own.
class BitMemory {
 public:
  using Word = Machine::Atomic<std::uint64_t>;
  explicit BitMemory(Shape shape)
      : words_(new (std::align_val_t{kCacheLine}) Word[shape.words()]{}) {}
  [[nodiscard]] Word* words() { return words_.get(); }

 private:
  struct Free {
    void operator()(Word* words) const { ::operator delete[](words, std::align_val_t{kCacheLine}); }
  };
  std::unique_ptr<Word[], Free> words_;
};

// Records of one worker, in memory that is used as it is touched.
class RecordMemory {
 public:
  explicit RecordMemory(std::uint32_t slots);
  ~RecordMemory();
  RecordMemory(const RecordMemory&) = delete;
  RecordMemory& operator=(const RecordMemory&) = delete;
  [[nodiscard]] bool ok() const { return records_ != nullptr; }
  [[nodiscard]] Record* at(std::uint32_t slot) { return records_ + slot; }

 private:
  std::size_t bytes_;
  Record* records_ = nullptr;
};

// A word of somebody's set that a thief works down. Nothing in it is reserved: each task in it is
// claimed when the thief comes to it.
struct Loot {
  Worker* victim = nullptr;
  std::uint32_t first_slot = 0;
  std::uint64_t bits = 0;
};

// What a thief last saw of a victim whose signals wait: they are its own unless it is stuck.
struct Seen {
  std::uint64_t turns = 0;
  std::uint64_t ticks = 0;
};

class Core {
 public:
  Core(const Config& wanted, std::uint32_t workers_wanted);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  [[nodiscard]] Status launch();
  // Returns when nothing is ready any more and the threads have ended. May be called twice.
  void stop();
  // After stop(): tasks that were never woken.
  [[nodiscard]] std::uint64_t abandoned() const;
  // Some task may be taken by a thief, and nobody looks: wakes one.
  void ring_a_sleeper(std::uint32_t from);

  // Fixed at start.
  const Config config;
  const std::uint32_t count;
  const Shape shape;
  const bool oversubscribed;  // more workers than cores: nobody spins
  const bool stealing;        // config.steal, and there are two
  const int quiet_looks;      // see Worker::look_quietly()
  const std::uint64_t spin_ticks;
  const std::uint64_t patience_ticks;
  StackDepot depot;
  std::vector<std::unique_ptr<Worker>> workers;
  std::optional<DebugEntry> debug;

  // Shared by all in the work loop.
  Watch<Machine> watch;
  // relaxed: a number to spread spawns by.
  std::atomic<std::uint32_t> next_worker{0};
  std::atomic<std::uint64_t> refused{0};  // spawns from outside
  // Set once by finish(); each worker that finds nothing then counts itself. seq_cst, rarely used.
  std::atomic<bool> stopping{false};
  std::atomic<std::uint32_t> done{0};
};

}  // namespace mh::ult::detail
