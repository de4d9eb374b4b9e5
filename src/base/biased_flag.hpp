// SPDX-License-Identifier: BSD-3-Clause
// A flag that one thread of a process has raised at a time, for what threads other than one hardly
// ever come to: that one, the first to raise it, is favoured and passes no locked instruction
// (biased locking; Kawachiya, Koseki, Onodera: Lock Reservation, OOPSLA 2002).
//
// The favoured thread raises a flag of its own by a plain store and then looks whether another one
// has come. A thread that comes says so, has every thread of the process pass a fence, which the
// operating system does for it, and then looks at the favoured thread's flag. Either one sees the
// other. From then on nobody is favoured.
//
// Threads: all. Nobody waits. Limits: where there is no such fence nobody is favoured; where it
// fails once another thread has come the flag stays down.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/cacheline.hpp"

namespace mh {

// One that all threads of this process pass (membarrier(2)).
struct ProcessFence {
  // Before the first; false: there is none.
  static bool prepare() { return call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }
  // When it returns true, each other thread has passed a full fence in the meantime.
  static bool pass() { return call(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }
  // What the favoured thread passes in between: nothing that the compiler moves memory over.
  static void pass_alone() { std::atomic_signal_fence(std::memory_order_seq_cst); }

 private:
  static bool call(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }
};

template <class Fence = ProcessFence>
class BiasedFlag {
 public:
  BiasedFlag() : revoked_(!Fence::prepare()), settled_(revoked_.load(std::memory_order_relaxed)) {}

  // False if it is raised, now and then also if it was about to be. Else it is this thread's until
  // lower().
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
  // A thread, by the place of a variable of its own.
  using Thread = const void*;
  static Thread this_thread() {
    static constinit thread_local char here = 0;
    return &here;
  }
  static bool is_this_thread(Thread thread) { return thread == this_thread(); }

  // This thread is, perhaps from now on.
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

  // Read by the favoured thread each time, hardly ever written.
  alignas(kCacheLine) std::atomic<Thread> favoured_{nullptr};
  // Raised by the favoured thread. lower() releases what was done; any thread's raise() acquires.
  std::atomic<bool> own_{false};
  // Another thread has come: ordered against own_ by the fences on both sides.
  std::atomic<bool> revoked_;
  // ... and its fence has been passed: released by it, acquired by all that come later.
  std::atomic<bool> settled_;
  // Raised by any other thread; acquired and released by these.
  std::atomic_flag raised_ = ATOMIC_FLAG_INIT;
};

}  // namespace mh
