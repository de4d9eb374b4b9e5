// SPDX-License-Identifier: BSD-3-Clause
#include "heap/lock.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "heap/system.hpp"

namespace mh::heap {

// The word on which waiters sleep. The lock's word has 64 bits and a futex has 32, so it is the
// half with the waiters' bit. The word holds the owner's pthread_self(), and those of two owners
// may be equal in this half. A thread then sleeps although the owner has changed, and the next
// leave() wakes that thread anyway.
std::uint32_t* Lock::half() { return reinterpret_cast<std::uint32_t*>(&word_); }

// Sleeps while another thread holds the lock, then takes the lock and returns true. A thread that
// has waited sets the waiters' bit when it takes the lock, because more threads may wait.
bool Lock::wait(std::uint64_t me) {
  const KeepErrno keep;
  for (;;) {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    if (seen == 0) {
      // Acquire: pairs with the release in leave().
      if (word_.compare_exchange_weak(seen, me | kWaiters, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
      continue;
    }
    const std::uint64_t marked = seen | kWaiters;
    if (seen == marked || word_.compare_exchange_weak(seen, marked, std::memory_order_relaxed)) {
      ::syscall(SYS_futex, half(), FUTEX_WAIT_PRIVATE, static_cast<std::uint32_t>(marked), nullptr);
    }
  }
}

void Lock::wake() {
  const KeepErrno keep;
  ::syscall(SYS_futex, half(), FUTEX_WAKE_PRIVATE, 1);
}

}  // namespace mh::heap
