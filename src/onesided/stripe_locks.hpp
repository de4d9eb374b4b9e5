// SPDX-License-Identifier: BSD-3-Clause
// Who may update which part of a target's memory: the locks behind elementwise atomicity.
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

namespace mh::onesided {

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

}  // namespace mh::onesided
