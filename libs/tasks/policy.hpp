// SPDX-License-Identifier: BSD-3-Clause
// The policies of a deque: its atomics and its lock. Shared has real ones. Alone has neither, for
// one thread that runs all ranks.
//
// The deque is a template over such a policy. The tests have a third policy, under which a checker
// runs the deque through all interleavings with delayed stores.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace mh::tasks {

// The policy for threads or processes that share memory.
struct Shared {
  template <class T>
  using Atomic = std::atomic<T>;

  // The lock is held for a few instructions, never while tasks are copied. The acquire of the next
  // holder is the partner of the release in unlock().
  static void lock(Atomic<std::uint32_t>& word) {
    while (word.exchange(1, std::memory_order_acquire) != 0) {
      while (word.load(std::memory_order_relaxed) != 0) spin_pause();
    }
  }
  static void unlock(Atomic<std::uint32_t>& word) { word.store(0, std::memory_order_release); }
};

// The policy for one thread that runs all ranks, as in the simulator: words that are not atomic,
// and a lock that does nothing.
struct Alone {
  template <class T>
  class Atomic {
   public:
    Atomic() = default;
    Atomic(T value) : value_(value) {}  // NOLINT(google-explicit-constructor)
    [[nodiscard]] T load(std::memory_order = std::memory_order_seq_cst) const { return value_; }
    void store(T value, std::memory_order = std::memory_order_seq_cst) { value_ = value; }
    T fetch_add(T more, std::memory_order = std::memory_order_seq_cst) {
      const T was = value_;
      value_ += more;
      return was;
    }

   private:
    T value_{};
  };
  static void lock(Atomic<std::uint32_t>& /*word*/) {}
  static void unlock(Atomic<std::uint32_t>& /*word*/) {}
};

}  // namespace mh::tasks
