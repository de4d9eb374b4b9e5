// SPDX-License-Identifier: BSD-3-Clause
// Synchronisation of tasks: locks, barrier, semaphore, event. All are built on wait and signal: the
// waiters of an object queue up, and are signalled in that order.
//
// Ordinary threads may use all of them beside tasks; a waiting thread sleeps. A task may hold a
// Mutex while it blocks, yields or moves to another worker. It must not hold a SpinLock then.
#pragma once

#include <atomic>
#include <cstdint>

#include "manyhands/ult/task.hpp"

namespace mh::ult {
namespace detail {

// Somebody in a queue; lives on the stack of who waits.
struct Waiting {
  Waiting* next = nullptr;
  Record* task = nullptr;               // nullptr: an ordinary thread
  std::atomic<std::uint32_t> woken{0};  // set with release by wake(), read with acquire by sleep()
};

// First in, first out. Guarded by the lock of whoever owns it.
class WaitQueue {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  void push(Waiting* waiting) {
    waiting->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = waiting;
    last_ = waiting;
  }
  Waiting* pop() {
    Waiting* waiting = first_;
    if (waiting != nullptr) first_ = waiting->next;
    return waiting;
  }
  Waiting* pop_all() {
    Waiting* all = first_;
    first_ = nullptr;
    return all;
  }

 private:
  Waiting* first_ = nullptr;
  Waiting* last_ = nullptr;
};

MH_ULT_API void sleep(Waiting& waiting) noexcept;  // returns once it is woken
MH_ULT_API void wake(Waiting* waiting) noexcept;   // it may be gone afterwards
MH_ULT_API void wake_all(Waiting* list) noexcept;
MH_ULT_API void back_off(unsigned turn) noexcept;

}  // namespace detail

// For a few instructions that are rarely contended. Must not be held over anything that can block,
// yield or join. Spins for a short while, then gives the core to other threads between looks.
class SpinLock {
 public:
  void lock() noexcept {
    // acquire: partner is the release in unlock().
    for (unsigned turn = 0; held_.exchange(true, std::memory_order_acquire);) {
      while (held_.load(std::memory_order_relaxed)) detail::back_off(turn++);
    }
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// The queue lock: one compare-and-swap when free; else a task waits its turn in a queue, and is
// handed the lock when its turn comes.
class Mutex {
 public:
  void lock() noexcept {
    std::uint32_t expected = kFree;
    // acquire: partner is the release in unlock().
    if (!word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) lock_queued();
  }
  bool try_lock() noexcept {
    std::uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }
  void unlock() noexcept {
    std::uint32_t expected = kHeld;
    if (!word_.compare_exchange_strong(expected, kFree, std::memory_order_release)) hand_over();
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kAwaited = 2;  // held, and there may be a queue

  MH_ULT_API void lock_queued() noexcept;
  MH_ULT_API void hand_over() noexcept;

  std::atomic<std::uint32_t> word_{kFree};
  SpinLock guard_;  // of the queue, and of every change to and from kAwaited
  detail::WaitQueue queue_;
};

// Lets `count` tasks pass when the last of them has come; then it can be used again.
class Barrier {
 public:
  explicit Barrier(std::uint32_t count) : count_(count) {}
  // True for one of them, the last.
  MH_ULT_API bool wait() noexcept;

 private:
  const std::uint32_t count_;
  SpinLock guard_;  // of both
  std::uint32_t arrived_ = 0;
  detail::WaitQueue queue_;
};

class Semaphore {
 public:
  explicit Semaphore(std::uint32_t count) : count_(count) {}
  MH_ULT_API void acquire() noexcept;
  MH_ULT_API bool try_acquire() noexcept;
  MH_ULT_API void release(std::uint32_t count = 1) noexcept;

 private:
  SpinLock guard_;  // of both
  std::uint32_t count_;
  detail::WaitQueue queue_;
};

// Happens once, unless reset; any number may wait for it.
class Event {
 public:
  [[nodiscard]] bool is_set() const noexcept { return set_.load(std::memory_order_acquire); }
  MH_ULT_API void set() noexcept;
  MH_ULT_API void wait() noexcept;
  // Nobody may wait at that time.
  void reset() noexcept { set_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> set_{false};  // release in set(), acquire for those who find it set
  SpinLock guard_;                // of the queue; set() holds it
  detail::WaitQueue queue_;
};

}  // namespace mh::ult
