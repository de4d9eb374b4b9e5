// SPDX-License-Identifier: BSD-3-Clause
// The time that a rank has spent inside MPI, readable by the other ranks of its node. A profile
// uses it to divide the time of an MPI call in two. While every rank that the call may depend on is
// inside MPI, data is transferred. While such a rank is outside, the call waits for that rank.
//
// Threads: any thread of the rank enters and leaves; any rank reads.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"

namespace mh::observe {

class alignas(kCacheLine) Presence {
 public:
  // The calling thread enters MPI at `now` (ticks). The rank is inside MPI while any of its threads
  // is inside.
  void enter(std::uint64_t now) {
    if (threads_.fetch_add(1, std::memory_order_relaxed) == 0)
      since_.store(now, std::memory_order_relaxed);
  }
  // The calling thread leaves MPI at `now`. `more`: ticks of the rank's earlier visits to MPI for
  // which enter() was not called; they are added to its time inside MPI.
  void leave(std::uint64_t now, std::uint64_t more = 0) {
    if (threads_.fetch_sub(1, std::memory_order_relaxed) != 1) return;
    const std::uint64_t begin = since_.load(std::memory_order_relaxed);
    since_.store(kChanging, std::memory_order_relaxed);
    // release: pairs with the acquire loads in ticks_inside(). A reader that has read since_ before
    // this change, and sees the new total, then finds kChanging or a later value in since_, and
    // reads since_ and total_ again.
    total_.store(total_.load(std::memory_order_relaxed) + (now > begin ? now - begin : 0) + more,
                 std::memory_order_release);
    since_.store(kOutside, std::memory_order_release);
  }

  [[nodiscard]] bool is_inside() const {
    return since_.load(std::memory_order_relaxed) > kChanging;
  }

  // Returns the rank's ticks inside MPI until `now`. The result is approximate while several of its
  // threads enter and leave at the same time.
  [[nodiscard]] std::uint64_t ticks_inside(std::uint64_t now) const {
    for (int look = 0; look < kLooks; ++look) {
      // acquire: pairs with the store of kOutside in leave(): a reader of kOutside sees the total
      // that leave() has written before.
      const std::uint64_t begin = since_.load(std::memory_order_acquire);
      const std::uint64_t total = total_.load(std::memory_order_acquire);
      if (begin == kChanging || since_.load(std::memory_order_relaxed) != begin) continue;
      return total + (begin != kOutside && now > begin ? now - begin : 0);
    }
    return total_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kOutside = 0;
  static constexpr std::uint64_t kChanging = 1;  // leave() is about to change total_
  static constexpr int kLooks = 8;

  std::atomic<std::uint64_t> total_{0};         // ticks of visits that are over
  std::atomic<std::uint64_t> since_{kOutside};  // begin of the visit under way, or one of the above
  std::atomic<std::uint32_t> threads_{0};       // number of threads inside MPI
};

}  // namespace mh::observe
