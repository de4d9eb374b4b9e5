// SPDX-License-Identifier: BSD-3-Clause
// A lock that knows its owner: enter() fails at once, at any instruction, if the calling thread
// holds the lock already.
//
// A signal handler may interrupt its own thread while that thread holds the lock, and a handler of
// fork() may allocate while its thread holds the lock. An ordinary lock would deadlock there. One
// word holds both the owner and the waiters' bit, so no instruction lies between taking the lock
// and being its owner (a pthread mutex has such a gap). The owner's name is pthread_self(), which,
// unlike the kernel's thread number (gettid), stays the same in a fork()ed child.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace mh::heap {

class Lock {
 public:
  // False if this thread holds the lock already; the caller must not call leave() then.
  bool enter() {
    const std::uint64_t me = self();
    std::uint64_t seen = 0;
    // Acquire: pairs with the release in leave().
    if (word_.compare_exchange_strong(seen, me, std::memory_order_acquire,
                                      std::memory_order_relaxed)) [[likely]] {
      return true;
    }
    return (seen & ~kWaiters) != me && wait(me);
  }

  void leave() {
    if ((word_.exchange(0, std::memory_order_release) & kWaiters) != 0) [[unlikely]]
      wake();
  }

 private:
  static constexpr std::uint64_t kWaiters = 1;  // this bit is clear in every pthread_self()

  static std::uint64_t self() { return static_cast<std::uint64_t>(::pthread_self()); }
  bool wait(std::uint64_t me);
  void wake();
  std::uint32_t* half();

  std::atomic<std::uint64_t> word_{0};
};

// Holds a lock for a scope. As a bool it is false if this thread held the lock already; the scope's
// end does not release the lock then.
class Hold {
 public:
  explicit Hold(Lock& lock) : lock_(lock), entered_(lock.enter()) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() {
    if (entered_) lock_.leave();
  }
  explicit operator bool() const { return entered_; }

 private:
  Lock& lock_;
  bool entered_;
};

}  // namespace mh::heap
