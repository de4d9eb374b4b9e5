// SPDX-License-Identifier: BSD-3-Clause
// A cache of the last freed small blocks of the shared heap, from which allocations take blocks
// without the heap's lock.
//
// The heap counts a cached block as allocated. A cache slot holds the number of the first page of
// one block. Threads hash to rows of slots, block lengths to the slots of a row, so that a loop
// which allocates and frees blocks of a few sizes mostly meets only its own blocks. At most kRows *
// kSlots blocks are cached, 17 MB.
//
// Thread-safe and safe in signal handlers: each access to a slot is one atomic exchange. That
// exchange makes the freeing thread's writes to the block and to its boundary tags visible to the
// thread that takes the block.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "heap/extents.hpp"

namespace mh::heap {

class BlockCache {
 public:
  static constexpr Page kMostPages = 17;  // 64 KB and the stagger, with pages of 4 KB

  // Takes the block in the slot for blocks of `pages` pages; kNoPage if the slot is empty. Lengths
  // that differ by a multiple of kSlots pages share a slot, so the block may have another length.
  Page take(Page pages) { return swap(pages, kNoPage); }
  // Puts the block at page `first` into its slot; returns the block that the slot held, or kNoPage.
  Page put(Page first, Page pages) { return swap(pages, first); }
  // Takes any cached block; kNoPage if the cache is empty.
  Page take_any() {
    for (std::atomic<Page>& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) == 0) continue;
      const Page found = slot.exchange(0, std::memory_order_acquire) - 1;
      if (found != kNoPage) return found;
    }
    return kNoPage;
  }

 private:
  static constexpr std::size_t kRows = 16;
  static constexpr std::size_t kSlots = 16;

  // Puts the block at page `other` (or kNoPage: none) into the calling thread's slot for blocks of
  // `pages` pages; returns the block that the slot held. Acquire and release: pairs with the
  // exchanges in swap() and take_any() by other threads.
  Page swap(Page pages, Page other) {
    std::atomic<Page>& slot = slots_[row() * kSlots + pages % kSlots];
    return slot.exchange(other + 1, std::memory_order_acq_rel) - 1;
  }
  static std::size_t row() {
    const auto self = static_cast<std::uint64_t>(::pthread_self());
    return (self >> 6U) * 0x9E3779B97F4A7C15U >> 60U;
  }

  static_assert(kNoPage + 1 == 0);
  alignas(64) std::array<std::atomic<Page>, kRows * kSlots> slots_{};  // page + 1; 0: empty
};

}  // namespace mh::heap
