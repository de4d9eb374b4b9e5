// SPDX-License-Identifier: BSD-3-Clause
// The locks of a target: stripe locks for atomic updates, and the lock of passive-target epochs.
//
// A *stripe* is kStripe bytes of a target's addresses. Each target has kStripeLocks spin locks;
// stripe number n is guarded by lock n modulo kStripeLocks. An element belongs to the stripe of its
// first byte. Ranks can therefore update disjoint ranges of one target at the same time, and a
// range within a stripe costs one lock. A thread holds at most one stripe lock, for at most one
// chunk, and never waits while it holds the lock. The locks lie in the window's shared memory.
//
// Limits: a stopped process that holds a stripe lock blocks all ranks that want the lock. The lock
// of a dead process is taken over by a rank that wants it; the bytes that the dead process was
// writing are undefined, as after any crash.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::rma {

inline constexpr std::uint64_t kStripe = 64U << 10U;
inline constexpr std::size_t kStripeLocks = 64;

// Tells whether the process of a rank of the node still runs, so that the lock of a dead process
// can be taken over.
struct Liveness {
  bool (*is_alive)(const void* context, std::uint32_t rank);
  const void* context;
};

class alignas(kCacheLine) StripeLock {
 public:
  // Waits for the lock, and takes it. `me`: the rank on the node of the calling process, the same
  // for all of its threads.
  void lock(std::uint32_t me, const Liveness& liveness) {
    if (!try_lock(me)) lock_slowly(me, liveness);
  }
  void unlock() {
    // release: pairs with the acquire in try_lock() of the next holder, which then sees the updates
    // that were made under the lock.
    holder_.store(0, std::memory_order_release);
  }

 private:
  bool try_lock(std::uint32_t me) {
    std::uint32_t nobody = 0;
    // acquire: pairs with the release in unlock() of the last holder, whose updates this thread
    // then sees.
    return holder_.compare_exchange_strong(nobody, me + 1, std::memory_order_acquire,
                                           std::memory_order_relaxed);
  }
  void lock_slowly(std::uint32_t me, const Liveness& liveness);
  bool take_over(std::uint32_t me, const Liveness& liveness);

  std::atomic<std::uint32_t> holder_{0};  // rank on the node plus one; 0: free
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

// The lock of one target in passive-target epochs (MPI_Win_lock, MPI_Win_lock_all): many readers or
// one writer.
//
// First come, first served, as in the MPI libraries: each lock request draws a number, and the
// numbers enter in turn. The thread that has drawn a number polls enter() until it returns true:
// from the wait loop, or from the target's server for an origin on another node
// (mpi/rma/serving.cpp). Each number that has entered must leave() with the same mode. The lock
// lies in the window's shared memory.
//
// Invariants, with all counters modulo 2^32:
//   readers_ is the number that may enter as a reader: all lower numbers have entered, and all
//   writers among them have left.
//   writers_ counts the numbers that have left. A writer enters when writers_ equals its number:
//   all lower numbers have then left.
//   writers_ <= readers_ + 1 <= next_ + 1
class alignas(kCacheLine) TargetLock {
 public:
  // Returns the next number of a lock request. relaxed: no data is published with a number.
  [[nodiscard]] std::uint32_t draw() { return next_.fetch_add(1, std::memory_order_relaxed); }

  // Tries to enter with a number that draw() has returned. Returns true once for each number: the
  // lock is then held.
  [[nodiscard]] bool enter(std::uint32_t number, LockMode mode) {
    // acquire, in both loads: pairs with the releases in enter() and leave() of the lock requests
    // with lower numbers.
    if (mode == LockMode::exclusive) return writers_.load(std::memory_order_acquire) == number;
    if (readers_.load(std::memory_order_acquire) != number) return false;
    // Lets the next number enter, too, if it is a reader. While readers_ equals this number, no
    // other thread writes readers_. release: passes the last writer's updates to the next reader.
    readers_.store(number + 1, std::memory_order_release);
    return true;
  }

  void leave(LockMode mode) {
    // release, in both additions: pairs with the acquires in enter(). A writer holds the lock
    // alone, so no other thread changes readers_ meanwhile.
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
