// SPDX-License-Identifier: BSD-3-Clause
// Synchronization of tasks: locks, barrier, semaphore, event. A Mutex, Barrier, Semaphore or Event
// keeps its waiting tasks and threads in a queue, and wakes them in the order in which they came.
//
// Tasks and ordinary threads may use the same object at the same time. A waiting task is suspended;
// a waiting thread sleeps. A task may hold a Mutex while it blocks, yields or moves to another
// worker. A task must not hold a SpinLock while it does so.
#pragma once

#include <atomic>
#include <cstdint>

#include "manyhands/ult/task.hpp"

namespace mh::ult {
namespace detail {

// An entry of a WaitQueue: a waiting task or thread. The entry lies on the stack of that task or
// thread.
struct Waiting {
  Waiting* next = nullptr;
  TaskRecord* task = nullptr;           // nullptr: an ordinary thread
  std::atomic<std::uint32_t> woken{0};  // set with release by wake(), read with acquire by sleep()
};

// A first-in, first-out queue of waiting tasks and threads. The SpinLock of the Mutex, Barrier or
// other object that has the queue guards it.
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

MH_ULT_API void sleep(Waiting& waiting) noexcept;  // returns after wake(&waiting)
MH_ULT_API void wake(Waiting* waiting) noexcept;   // the waiter may destroy `waiting` at once
MH_ULT_API void wake_all(Waiting* list) noexcept;
// Pauses between two polls of a SpinLock. `turn` counts the polls of one call of lock(), from 0:
// the first pauses spin, later ones yield the core.
MH_ULT_API void back_off(unsigned turn) noexcept;

// The word of a Mutex, and the fast steps of lock() and unlock(). False: the slow step is needed.
struct MutexWord {
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kAwaited = 2;  // held, and the queue has a waiter
  // acquire: pairs with the release in give(), so the caller sees what earlier holders wrote.
  template <class Word>
  static bool take(Word& word) noexcept {
    std::uint32_t expected = kFree;
    return word.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }
  template <class Word>
  static bool give(Word& word) noexcept {
    std::uint32_t expected = kHeld;
    return word.compare_exchange_strong(expected, kFree, std::memory_order_release);
  }
};

}  // namespace detail

// A lock that is held for a few instructions and is rarely contended. The holder must not block,
// yield or join. A waiter spins for about a microsecond, then calls sched_yield() between its
// polls.
class SpinLock {
 public:
  void lock() noexcept {
    // acquire: pairs with the release in unlock(), so the caller sees what earlier holders of the
    // lock wrote.
    for (unsigned turn = 0; held_.exchange(true, std::memory_order_acquire);) {
      while (held_.load(std::memory_order_relaxed)) detail::back_off(turn++);
    }
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// A fair lock, not recursive. Locking a free Mutex takes one compare-and-swap. Otherwise the caller
// waits in a queue, and unlock() hands the lock to the first waiter. A holder that knows of no
// later user may destroy the Mutex after its unlock(), even while the unlock() of an earlier holder
// still returns.
class Mutex {
 public:
  void lock() noexcept {
    if (!detail::MutexWord::take(word_)) lock_queued();
  }
  bool try_lock() noexcept { return detail::MutexWord::take(word_); }
  void unlock() noexcept {
    if (!detail::MutexWord::give(word_)) hand_over();
  }

 private:
  MH_ULT_API void lock_queued() noexcept;
  MH_ULT_API void hand_over() noexcept;

  std::atomic<std::uint32_t> word_{detail::MutexWord::kFree};
  SpinLock guard_;  // guards queue_, and every change of word_ to and from kAwaited
  detail::WaitQueue queue_;
};

// Blocks its callers until `count` tasks and threads have called wait(). The barrier can then be
// used again. `count`: at least 1.
class Barrier {
 public:
  explicit Barrier(std::uint32_t count) : count_(count) {}
  // Waits until `count` tasks and threads have called wait(). Returns true to the last that
  // arrives, and false to all others.
  MH_ULT_API bool wait() noexcept;

 private:
  const std::uint32_t count_;
  SpinLock guard_;  // guards arrived_ and queue_
  std::uint32_t arrived_ = 0;
  detail::WaitQueue queue_;
};

// A counting semaphore. acquire() takes 1 from the count, and waits while the count is 0.
// try_acquire() returns false instead of waiting. release() adds to the count, and so ends that
// many waits.
class Semaphore {
 public:
  explicit Semaphore(std::uint32_t count) : count_(count) {}
  MH_ULT_API void acquire() noexcept;
  MH_ULT_API bool try_acquire() noexcept;
  MH_ULT_API void release(std::uint32_t count = 1) noexcept;

 private:
  SpinLock guard_;  // guards count_ and queue_
  std::uint32_t count_;
  detail::WaitQueue queue_;
};

// An event, which stays set once a task or thread has called set(). Any number of tasks and threads
// may wait for it. A task or thread that finds the event set may destroy it, even while the set()
// still returns.
class Event {
 public:
  // acquire: pairs with the release in set(), so the caller sees what the setter wrote before.
  [[nodiscard]] bool is_set() const noexcept {
    return state_.load(std::memory_order_acquire) == State::set;
  }
  MH_ULT_API void set() noexcept;
  MH_ULT_API void wait() noexcept;
  // Makes the event unset again. The caller ensures that no task or thread uses the event during
  // the call. relaxed: the store publishes no other data.
  void reset() noexcept { state_.store(State::unset, std::memory_order_relaxed); }

 private:
  // `busy` is also the lock of the queue: a call of set() or wait() changes the queue.
  enum class State : std::uint8_t { unset, busy, set };

  bool lock_unless_set() noexcept;

  std::atomic<State> state_{State::unset};
  detail::WaitQueue queue_;
};

}  // namespace mh::ult
