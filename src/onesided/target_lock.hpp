// SPDX-License-Identifier: BSD-3-Clause
// The lock of one target in passive-target epochs (MPI_Win_lock, MPI_Win_lock_all): many sharers or
// one that excludes all others.
//
// First come, first served, as in the MPI libraries: who comes draws a number, and numbers enter in
// turn. Whoever has a number waits in the rank's wait loop, asks enter() until it is true, and must
// then leave() by the same mode. Lies in the window's shared memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::onesided {

enum class LockMode : std::uint8_t { shared, exclusive };

// Invariants: readers_ and writers_ are numbers that may enter, for each mode; numbers below
// writers_ have left. writers_ <= readers_ + 1 <= next_ + 1, all of them counting up, around 2^32.
class alignas(kCacheLine) TargetLock {
 public:
  // relaxed: a number is nobody else's business.
  [[nodiscard]] std::uint32_t draw() { return next_.fetch_add(1, std::memory_order_relaxed); }

  // True once for each number: it has entered.
  [[nodiscard]] bool enter(std::uint32_t number, LockMode mode) {
    // acquire, both: pair with the releases of those that entered, or left, before.
    if (mode == LockMode::exclusive) return writers_.load(std::memory_order_acquire) == number;
    if (readers_.load(std::memory_order_acquire) != number) return false;
    // Only this number writes it now. release: what the last writer did goes on to the next sharer.
    readers_.store(number + 1, std::memory_order_release);
    return true;
  }

  void leave(LockMode mode) {
    // release, both: pair with the acquires in enter(). Only a writer is alone here.
    if (mode == LockMode::exclusive) readers_.fetch_add(1, std::memory_order_release);
    writers_.fetch_add(1, std::memory_order_release);
  }

 private:
  std::atomic<std::uint32_t> next_{0};
  std::atomic<std::uint32_t> readers_{0};
  std::atomic<std::uint32_t> writers_{0};
};
static_assert(std::is_standard_layout_v<TargetLock> && sizeof(TargetLock) == kCacheLine);

}  // namespace mh::onesided
