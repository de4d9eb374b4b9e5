// SPDX-License-Identifier: BSD-3-Clause
#include "heap/lock.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "heap/system.hpp"

namespace mh::heap {

// A futex has 32 bits, so waiters sleep on the half of the word that has the waiters' bit. Two
// owners may share a half; a thread then sleeps although the owner has changed, and the next
// leave() wakes it all the same.
std::uint32_t* Lock::half() { return reinterpret_cast<std::uint32_t*>(&word_); }

// A thread that has waited takes the lock with the waiters' bit set, because more threads may wait.
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
