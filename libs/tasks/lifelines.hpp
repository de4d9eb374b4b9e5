// SPDX-License-Identifier: BSD-3-Clause
// Tells the ranks of a node which of them have died, and lets the living meet.
//
// Each rank holds a robust mutex in the node's shared memory from its first to its last moment in
// the collection. When a rank dies, the kernel releases the mutex and marks it. The mark is exact:
// a rank that is stopped or late never has it. A living rank that finds the mark gets the mutex, is
// the *heir* and saves the dead rank's tasks. If the heir dies, too, the kernel marks both mutexes,
// and the next heir begins anew.
//
// A rank that the heir has reported is *lost*. The ranks meet by counting phases; a meeting waits
// for each rank that has neither arrived nor been lost.
//
// Threads: the collection's thread, which holds the mutexes.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "base/cacheline.hpp"
#include "manyhands/result.hpp"

namespace mh::tasks {

enum class Loss : std::uint8_t {
  none,
  saved,    // the heir has saved all tasks of the dead rank
  outside,  // the rank died outside of process(), and its tasks may be incomplete
};

class Lifelines {
 public:
  static std::size_t bytes(std::uint32_t ranks) { return ranks * sizeof(Line); }

  // `memory`: bytes() long, shared by the ranks of the node, aligned to a cache line. A rank
  // constructs its own cache line (its mutex, phase and loss), and uses the lines of other ranks
  // only after a barrier. `own`: the index of this rank.
  Lifelines(std::byte* memory, std::uint32_t own, std::uint32_t ranks)
      : lines_(reinterpret_cast<Line*>(memory), ranks), own_(own) {
    new (&lines_[own]) Line;
  }
  Lifelines(const Lifelines&) = delete;
  Lifelines& operator=(const Lifelines&) = delete;
  // Releases the mutexes that this rank holds, because the shared memory with the mutexes may be
  // unmapped after the destructor.
  ~Lifelines() {
    for (const std::uint32_t rank : held_) pthread_mutex_unlock(&lines_[rank].life);
  }

  // Makes and takes this rank's own mutex, which the kernel marks if the rank dies. `unsupported`:
  // the system has no robust mutexes.
  Status hold() {
    pthread_mutexattr_t robust;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
    int error = pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    if (error == 0) error = pthread_mutex_init(&lines_[own_].life, &robust);
    pthread_mutexattr_destroy(&robust);
    if (error == 0) error = pthread_mutex_lock(&lines_[own_].life);
    if (error != 0) return {Code::unsupported, error};
    held_.push_back(own_);
    return {};
  }

  // True: the rank has died, and this rank is now its heir, which has to save the dead rank's
  // tasks.
  bool inherit(std::uint32_t rank) {
    const int error = pthread_mutex_trylock(&lines_[rank].life);
    if (error == 0) pthread_mutex_unlock(&lines_[rank].life);  // the rank has left the collection
    if (error != EOWNERDEAD) return false;
    pthread_mutex_consistent(&lines_[rank].life);
    held_.push_back(rank);
    return true;
  }
  // Called by the heir of a dead rank when the dead rank's tasks are saved, or if they cannot be
  // saved. All ranks then see the rank as lost.
  void report(std::uint32_t rank, Loss loss) {
    // release: pairs with the acquire in loss(). A rank that reads the loss sees the saved tasks.
    lines_[rank].loss.store(loss, std::memory_order_release);
  }
  [[nodiscard]] Loss loss(std::uint32_t rank) const {
    return lines_[rank].loss.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_lost(std::uint32_t rank) const { return loss(rank) != Loss::none; }
  [[nodiscard]] std::uint32_t lost() const {
    std::uint32_t count = 0;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) count += is_lost(rank) ? 1 : 0;
    return count;
  }

  // Counts this rank into the next meeting: increments its phase.
  void arrive() {
    // release: partner is the acquire in has_arrived(). A rank that sees the arrival sees all that
    // this rank wrote before.
    lines_[own_].phase.store(++phase_, std::memory_order_release);
  }
  // True: the rank has arrived at the meeting at which this rank is (its phase is at least as
  // high).
  [[nodiscard]] bool has_arrived(std::uint32_t rank) const {
    return lines_[rank].phase.load(std::memory_order_acquire) >= phase_;
  }
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(lines_.size()); }
  [[nodiscard]] std::uint32_t own() const { return own_; }

 private:
  struct Line {
    alignas(kCacheLine) pthread_mutex_t life{};
    std::atomic<std::uint64_t> phase{0};
    std::atomic<Loss> loss{Loss::none};
  };

  std::span<Line> lines_;
  std::uint32_t own_;
  std::uint64_t phase_ = 0;
  std::vector<std::uint32_t> held_;  // the ranks whose mutexes this rank holds
};

}  // namespace mh::tasks
