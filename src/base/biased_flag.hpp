// SPDX-License-Identifier: BSD-3-Clause
// A flag that is almost always raised by the same thread (biased locking; Kawachiya, Koseki,
// Onodera: Lock Reservation, OOPSLA 2002). The first thread to raise the flag is its favoured
// thread, and executes no locked instruction for it.
//
// The flag has two words: one for the favoured thread, one for all other threads. The favoured
// thread raises the flag by a plain store to its own word and then looks whether another thread has
// revoked the favour. A second thread revokes the favour, makes every thread of the process pass a
// fence (the operating system does that), and then looks at the favoured thread's word. At least
// one of the two threads sees the other's store. After a revocation no thread is favoured.
//
// Threads: any. Nothing blocks. Limits: without membarrier(2) no thread is favoured; while the
// fence fails after a revocation, no thread can raise the flag.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/cacheline.hpp"

namespace mh {

// A fence that all threads of this process pass (membarrier(2)).
struct ProcessFence {
  // Must be called before the first pass(). False: the system has no fence that all threads pass.
  static bool prepare() { return call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }
  // True: every other thread has passed a full fence during the call.
  static bool pass() { return call(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }
  // The cheap counterpart of pass(), for the thread that raises the flag often: it only keeps the
  // compiler from moving memory accesses. Another thread's pass() makes the processor of this
  // thread pass a full fence.
  static void pass_alone() { std::atomic_signal_fence(std::memory_order_seq_cst); }

 private:
  static bool call(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }
};

template <class Fence = ProcessFence>
class BiasedFlag {
 public:
  BiasedFlag() : revoked_(!Fence::prepare()), settled_(revoked_.load(std::memory_order_relaxed)) {}

  // Raises the flag for the calling thread, which holds it until lower(). Returns false if the flag
  // is raised, or if another thread may be about to raise it.
  bool raise() {
    if (is_favoured()) [[likely]] {
      if (own_.load(std::memory_order_acquire)) return false;
      own_.store(true, std::memory_order_relaxed);
      Fence::pass_alone();
      if (!revoked_.load(std::memory_order_relaxed)) [[likely]]
        return true;
      own_.store(false, std::memory_order_relaxed);
    }
    return raise_as_any();
  }

  void lower() {
    if (is_this_thread(favoured_.load(std::memory_order_relaxed)) &&
        own_.load(std::memory_order_relaxed)) [[likely]] {
      own_.store(false, std::memory_order_release);
    } else {
      raised_.clear(std::memory_order_release);
    }
  }

 private:
  // A thread is identified by the address of a thread-local variable.
  using Thread = const void*;
  static Thread this_thread() {
    static constinit thread_local char here = 0;
    return &here;
  }
  static bool is_this_thread(Thread thread) { return thread == this_thread(); }

  // True if the calling thread is the favoured thread (the first that raised the flag), or has just
  // become it.
  bool is_favoured() {
    const Thread now = favoured_.load(std::memory_order_relaxed);
    if (now != nullptr) [[likely]]
      return is_this_thread(now);
    Thread nobody = nullptr;
    return !revoked_.load(std::memory_order_relaxed) &&
           favoured_.compare_exchange_strong(nobody, this_thread(), std::memory_order_relaxed);
  }

  [[gnu::noinline]] bool raise_as_any() {
    if (!settled_.load(std::memory_order_acquire)) {
      revoked_.store(true, std::memory_order_relaxed);
      if (!Fence::pass()) return false;
      settled_.store(true, std::memory_order_release);
    }
    if (raised_.test_and_set(std::memory_order_acquire)) return false;
    if (!own_.load(std::memory_order_acquire)) return true;
    raised_.clear(std::memory_order_release);
    return false;
  }

  // The favoured thread: the first that raised the flag, null before. Written once; every thread
  // reads this word at each raise().
  alignas(kCacheLine) std::atomic<Thread> favoured_{nullptr};
  // True while the favoured thread has raised the flag. The release in lower() pairs with the
  // acquire in the raise() of any thread.
  std::atomic<bool> own_{false};
  // True once another thread has wanted the flag: no thread is favoured from then on. Also true if
  // the system has no fence that all threads pass. Ordered against own_ by pass_alone() of the
  // favoured thread and pass() of the other.
  std::atomic<bool> revoked_;
  // True once all threads have passed a fence after the revocation of the favour: later calls of
  // raise_as_any() need no fence. release: by the thread that called pass(); acquire: in those
  // later calls.
  std::atomic<bool> settled_;
  // True while a thread that is not favoured has raised the flag. The release in lower() pairs with
  // the acquire in raise_as_any().
  std::atomic_flag raised_ = ATOMIC_FLAG_INIT;
};

}  // namespace mh
