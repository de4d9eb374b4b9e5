// SPDX-License-Identifier: BSD-3-Clause
// The locks of a target: stripe locks, behind elementwise atomicity, which say who may update which
// part of its memory; and its own in passive-target epochs (TargetLock, below).
//
// A *stripe* is kStripe bytes of a target's addresses; each target has kStripeLocks spin locks, and
// a stripe is guarded by the one of its number modulo that. An element belongs to the stripe in
// which it begins. So disjoint ranges of one target are updated at the same time, and a range of a
// stripe costs one lock. Held for one range of at most a chunk, never while something is waited
// for, and never two at a time. Lies in the window's shared memory.
//
// Limit: a holder that is stopped stops those who want its stripe, as with any lock. One that died
// is found out and its lock taken over; what it was writing is then undefined, as after any crash.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::rma {

inline constexpr std::uint64_t kStripe = 64U << 10U;
inline constexpr std::size_t kStripeLocks = 64;

// Whether the process of that rank of the node still runs.
struct Liveness {
  bool (*is_alive)(const void* context, std::uint32_t rank);
  const void* context;
};

class alignas(kCacheLine) StripeLock {
 public:
  // `me`: rank on the node, of which two threads are told apart by nobody.
  void lock(std::uint32_t me, const Liveness& liveness) {
    if (!try_lock(me)) lock_slowly(me, liveness);
  }
  void unlock() {
    // release: pairs with the acquire of try_lock() of the next holder, who sees what was written.
    holder_.store(0, std::memory_order_release);
  }

 private:
  bool try_lock(std::uint32_t me) {
    std::uint32_t nobody = 0;
    // acquire: pairs with the release in unlock().
    return holder_.compare_exchange_strong(nobody, me + 1, std::memory_order_acquire,
                                           std::memory_order_relaxed);
  }
  void lock_slowly(std::uint32_t me, const Liveness& liveness);
  bool take_over(std::uint32_t me, const Liveness& liveness);

  std::atomic<std::uint32_t> holder_{0};  // rank on the node plus one; 0: nobody
};
static_assert(std::is_standard_layout_v<StripeLock> && sizeof(StripeLock) == kCacheLine);

struct StripeLocks {
  StripeLock lock[kStripeLocks];

  [[nodiscard]] StripeLock& of(std::uint64_t address) {
    return lock[address / kStripe % kStripeLocks];
  }
};

// ---- Passive-target epochs ----------------------------------------------------------------------

enum class LockMode : std::uint8_t { shared, exclusive };

// The lock of one target in passive-target epochs (MPI_Win_lock, MPI_Win_lock_all): many sharers or
// one that excludes all others.
//
// First come, first served, as in the MPI libraries: who comes draws a number, and numbers enter in
// turn. Whoever has a number waits in the rank's wait loop, asks enter() until it is true, and must
// then leave() by the same mode. Lies in the window's shared memory.
//
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

}  // namespace mh::rma
