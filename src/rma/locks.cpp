// SPDX-License-Identifier: BSD-3-Clause
#include "rma/locks.hpp"

#include <sched.h>

#include "base/clock.hpp"

namespace mh::rma {
namespace {

constexpr int kLooksBeforeYield = 2000;   // about 50 us: a holder that runs has unlocked by then
constexpr int kYieldsBeforeDoubt = 4096;  // then take_over() asks whether the holder is alive

}  // namespace

void StripeLock::lock_slowly(std::uint32_t me, const Liveness& liveness) {
  for (;;) {
    for (int look = 0; look < kLooksBeforeYield; ++look) {
      // relaxed: a hint that the lock is free; try_lock() decides.
      if (holder_.load(std::memory_order_relaxed) == 0 && try_lock(me)) return;
      spin_pause();
    }
    for (int turn = 0; turn < kYieldsBeforeDoubt; ++turn) {
      ::sched_yield();
      if (try_lock(me)) return;
    }
    if (take_over(me, liveness)) return;
  }
}

bool StripeLock::take_over(std::uint32_t me, const Liveness& liveness) {
  std::uint32_t holder = holder_.load(std::memory_order_relaxed);
  if (holder == 0 || liveness.is_alive(liveness.context, holder - 1)) return false;
  // acquire: pairs with the release in the last unlock() before the dead rank locked. A dead rank
  // cannot unlock, so the exchange fails only if another rank has taken over the lock before.
  return holder_.compare_exchange_strong(holder, me + 1, std::memory_order_acquire,
                                         std::memory_order_relaxed);
}

}  // namespace mh::rma
