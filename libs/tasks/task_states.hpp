// SPDX-License-Identifier: BSD-3-Clause
// The state of each task of a node, in shared memory, for collections that survive the loss of a
// rank (Config::survive_loss). A task stays in the slot where it was added until process() ends.
//
//   ready       any rank may claim the task
//   running(r)  rank r has claimed the task
//   ended(r)    the task's function has returned on rank r
//
//   ready -> running(r) -> ended(r)     claim() and end() of rank r
//   running(r) -> ready                 give_back(): r has died
//   ended(r) -> ended(h)                adopt(): r has died, h records the task for restore()
//
// Each change is one atomic operation, so a rank may die between any two instructions. A rank adds
// tasks to its own part (a row of task slots) alone, and publishes the state of a task before the
// number of added tasks. A task whose rank died before that number changed does not exist; the task
// that was adding it runs again.
//
// Threads: each rank has an object of its own. add() and clear() are for the part of the caller.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/cacheline.hpp"

namespace mh::tasks {

class TaskStates {
 public:
  static std::size_t bytes(std::uint32_t ranks, std::uint64_t capacity) {
    return kCacheLine + ranks * part_bytes(capacity);
  }
  // `memory`: bytes() long, shared by the ranks of the node, aligned to a cache line. A rank
  // constructs its own part, and rank 0 also the word that counts give_back(). A rank uses the
  // other parts only after a barrier.
  TaskStates(std::byte* memory, std::uint32_t own, std::uint32_t ranks, std::uint64_t capacity)
      : returned_(reinterpret_cast<Number*>(memory)), own_(own) {
    if (own == 0) new (returned_) Number(0);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::byte* part = memory + kCacheLine + rank * part_bytes(capacity);
      auto* states = reinterpret_cast<State*>(part + kCacheLine);
      if (rank == own) new (part) Number(0);
      if (rank == own) std::uninitialized_value_construct_n(states, capacity);
      parts_.push_back({reinterpret_cast<Number*>(part), {states, capacity}});
    }
  }

  // Call when a task is in the next slot of the caller's own part: makes the task ready for all
  // ranks.
  void add() {
    const std::uint64_t slot = parts_[own_].added->load(std::memory_order_relaxed);
    parts_[own_].states[slot].store(kReady, std::memory_order_relaxed);
    // release: partner is the acquire in added(). A rank that sees the number of added tasks sees
    // the task and its state.
    parts_[own_].added->store(slot + 1, std::memory_order_release);
  }
  // Empties the caller's own part. Call only while no other rank looks at that part.
  void clear() { parts_[own_].added->store(0, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t added(std::uint32_t part) const {
    return parts_[part].added->load(std::memory_order_acquire);
  }

  // Claims a ready task. True: this rank has claimed the task and must run it.
  bool claim(std::uint32_t part, std::uint64_t slot) {
    // acquire: partner is the release in give_back(). A rank that died in the task may have left
    // results, which the next run then sees.
    return change(part, slot, kReady, running(own_), std::memory_order_acquire);
  }
  void end(std::uint32_t part, std::uint64_t slot) {
    // release: partner is the acquire in has_ended(). A rank that sees the end sees the task's
    // results and the tasks that it has added.
    parts_[part].states[slot].store(ended(own_), std::memory_order_release);
  }
  [[nodiscard]] bool has_ended(std::uint32_t part, std::uint64_t slot) const {
    return (parts_[part].states[slot].load(std::memory_order_acquire) & kKind) == kEnded;
  }

  // True: the task ended on this rank, or on a dead rank, from which this rank has adopted it.
  [[nodiscard]] bool ended_on_own_rank(std::uint32_t part, std::uint64_t slot) const {
    return parts_[part].states[slot].load(std::memory_order_relaxed) == ended(own_);
  }

  // Called by the heir of a dead rank: the dead rank's running task, if there is one, becomes ready
  // again.
  void give_back(std::uint32_t dead) {
    for (std::uint32_t part = 0; part < parts_.size(); ++part) {
      for (std::uint64_t slot = 0; slot < added(part); ++slot) {
        change(part, slot, running(dead), kReady, std::memory_order_acq_rel);
      }
    }
    // release: partner is the acquire in returned(). A rank that sees the new count sees the tasks
    // that are ready again.
    returned_->fetch_add(1, std::memory_order_release);
  }
  // Returns the number of calls of give_back() by all ranks. After a change of the number, tasks
  // may be ready that were not ready before.
  [[nodiscard]] std::uint64_t returned() const {
    return returned_->load(std::memory_order_acquire);
  }
  // Called by the heir of a dead rank. True: the task ended on the dead rank, and counts from this
  // call on as ended on the caller's rank, which records the task for restore().
  bool adopt(std::uint32_t part, std::uint64_t slot, std::uint32_t dead) {
    return change(part, slot, ended(dead), ended(own_), std::memory_order_acq_rel);
  }

 private:
  using Word = std::uint32_t;
  using State = std::atomic<Word>;
  using Number = std::atomic<std::uint64_t>;
  static_assert(State::is_always_lock_free && Number::is_always_lock_free);

  static constexpr Word kReady = 1;
  static constexpr Word kRunning = 2;
  static constexpr Word kEnded = 3;
  static constexpr Word kKind = 3;  // the bits of the kind; the rank is above them
  static Word running(std::uint32_t rank) { return rank * (kKind + 1) + kRunning; }
  static Word ended(std::uint32_t rank) { return rank * (kKind + 1) + kEnded; }

  struct Part {
    Number* added;
    std::span<State> states;
  };

  static std::size_t part_bytes(std::uint64_t capacity) {
    const std::size_t states = capacity * sizeof(State);
    return kCacheLine + (states + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  bool change(std::uint32_t part, std::uint64_t slot, Word from, Word to, std::memory_order order) {
    State& state = parts_[part].states[slot];
    // A load comes first, because most tasks are not in the state `from`, and a failed exchange
    // would take the cache line from other ranks.
    if (state.load(std::memory_order_relaxed) != from) return false;
    return state.compare_exchange_strong(from, to, order, std::memory_order_relaxed);
  }

  Number* returned_;
  std::vector<Part> parts_;
  std::uint32_t own_;
};

}  // namespace mh::tasks
