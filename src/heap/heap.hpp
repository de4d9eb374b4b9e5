// SPDX-License-Identifier: BSD-3-Clause
// The heap: blocks of kThreshold bytes and more in memory that peers of the node can map.
//
// allocate() and resize() return nullptr if the heap is off, or if the block is larger than
// Options::largest or than the budget permits. They also return nullptr if memory or a limit of the
// process is exhausted, or if this thread holds the lock. The caller (preload.cpp) then uses the
// next allocator, as it would without the heap. The caller asks for no block below kThreshold.
//
//   block    the bytes the program got. A block begins in the first page of its extent, at a
//            multiple of 256 bytes that differs between extents. Otherwise all blocks of a power of
//            two would begin alike modulo 4096, and share cache sets.
//   cached   the last freed blocks of up to 64 KB (block_cache.hpp), which count as used.
//   kept     memory of freed blocks, reused for later blocks, up to a bound. Beyond the bound, and
//            when memory is short, the heap returns the memory to the system. The heap keeps memory
//            because the first touch of a shared page costs more than any other use.
//
// One lock guards the heap; cached blocks need no lock. Allocations and releases make the system
// calls that take or return memory without the lock, except for growth (once in 64 MB). A thread
// may enter the heap while it holds the lock itself, in a signal handler or a handler of fork().
// The thread does not wait then: its allocation is not served, and the next release that gets the
// lock carries out its release. The heap has no thread-local data, no C++ run time and no
// destructor, because calls may come before constructors, from threads that end, and after exit().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/block_cache.hpp"
#include "heap/budget.hpp"
#include "heap/conditions.hpp"
#include "heap/door.h"
#include "heap/extents.hpp"
#include "heap/file.hpp"
#include "heap/lock.hpp"
#include "heap/promotion.hpp"

namespace mh::heap {

// The size in bytes from which blocks gain from messages that peers copy by loads and stores
// (MH_MAPPED_THRESHOLD). An extent has whole pages, and the offset of its block costs one page
// more. That page is a quarter of the smallest block, and less than a tenth of blocks of 64 KB and
// more.
inline constexpr std::size_t kThreshold = 16U << 10U;

using Stats = mh_heap_stats;

class Heap {
 public:
  struct Options {
    bool reserve = false;        // the kernel allocates a block's pages at once (strict accounting)
    bool promote = false;        // collapse every new block into huge pages (promotion.hpp)
    bool promote_asked = false;  // collapse the ranges for which the program asks for huge pages
    bool bounded = false;        // fresh memory within a budget (budget.hpp)
    std::uint64_t largest = UINT64_MAX;  // bytes of the largest block that is served
    std::uint64_t keep = 256U << 20U;    // most kept bytes, unless memory is short
  };
  // The options for this mode (MH_HEAP) on the machine with these facts.
  static Options options_for(Mode mode, const Facts& facts);

  // Lets the heap serve blocks from now on. Called at most once. No memory is mapped before the
  // first block, or ensure_file().
  void start(const Options& options);
  // Acquire: pairs with the release in start(), which has written the options.
  [[nodiscard]] bool started() const { return started_.load(std::memory_order_acquire); }

  // Returns a block at a multiple of `alignment`, a power of two, filled with zeros if `zero`.
  // Returns nullptr if the heap does not serve the block; errno is unchanged in either case.
  void* allocate(std::size_t bytes, std::size_t alignment, bool zero);
  // Frees a block of this heap. An address in a page of the heap in which no block begins is
  // ignored.
  void release(void* block);
  // Resizes in place or by moving. nullptr if neither works; the block is unchanged then.
  void* resize(void* block, std::size_t bytes);
  [[nodiscard]] std::size_t usable(const void* block);
  [[nodiscard]] bool owns(const void* address) const { return file_.holds(address); }
  // Returns the memory of all cached blocks and kept extents, which are both free, to the system.
  void trim();
  // Whether the other ranks of the node can reach all bytes of the range in this process's heap.
  [[nodiscard]] bool reaches(std::uint64_t address, std::size_t bytes);
  // Makes a part of the heap private to this process until its block is freed, or a part of a
  // static array for good.
  void isolate(const void* address, std::size_t bytes);
  // Whether a part of the range belongs to the heap, or to a static array that was moved into the
  // heap's file. False unless this process maps the file, shared or (retired) copy-on-write.
  [[nodiscard]] bool touches(const void* address, std::size_t bytes) const;
  // Makes the pages of the range read as zero, as MADV_DONTNEED does for private memory.
  void empty(const void* address, std::size_t bytes);
  // Notes that the program has asked for huge pages in the range (MADV_HUGEPAGE); collapse_one()
  // makes them later.
  void wants_huge(const void* address, std::size_t bytes);
  [[nodiscard]] File& file() { return file_; }
  // Makes the heap's file if there is none yet. False if there is no file that peers can share.
  bool ensure_file();
  [[nodiscard]] Stats stats();
  // Lets a heap with a budget take no fresh memory from now on, because no peer will map the heap.
  void stop_growing();

  // Take the heap's lock before fork(), and release it in parent and child. lock() returns false if
  // this thread held the lock already; then unlock() must not be called.
  bool lock() { return lock_.enter(); }
  void unlock() { lock_.leave(); }
  // Checks the heap's invariants, for tests. Returns a text about the first broken one, or nullptr.
  [[nodiscard]] const char* check();

 private:
  // A request for a block of `bytes` bytes, in an extent that has `room` bytes or more.
  struct Wish {
    std::size_t bytes;
    std::size_t room;
    std::size_t alignment = 1;
    bool fresh = false;  // from empty pages only
  };

  [[nodiscard]] bool open_locked();
  [[nodiscard]] bool grow_locked(std::size_t bytes);
  Taken take_locked(const Wish& wish);
  Taken take(const Wish& wish);
  [[nodiscard]] bool affordable_locked(Page pages) const;
  void count_locked(Page first);
  void discount_locked(Page first);
  Page take_cached(Page pages);
  [[nodiscard]] bool may_cache(Page first) const;
  void release_cached();
  void* allocate_extent(std::size_t bytes, std::size_t alignment, bool zero);
  void release_extent(Page first);
  [[nodiscard]] bool resize_locked(Page first, std::size_t bytes);
  void* moved(void* block, std::size_t to);
  [[nodiscard]] void* place(Page first, std::size_t alignment) const;
  [[nodiscard]] Page extent_of(const void* block) const;
  [[nodiscard]] std::uint64_t address_of(Page page) const {
    return file_.base() + page * page_bytes_;
  }
  [[nodiscard]] std::size_t bytes_of(Page first) const {
    return extents_.pages_of(first) * page_bytes_;
  }
  [[nodiscard]] Page pages_for(std::size_t bytes, std::size_t alignment) const;
  void release_locked(Page first);
  void release_later(Page first);
  void release_deferred_locked();
  void give_back(std::uint64_t bound);
  void look_at_memory_locked();
  void collapse_one();

  Lock lock_;
  std::atomic<bool> started_{false};
  // Written by start() only, before the heap serves a block, and so read without the lock.
  Options options_;
  std::size_t page_bytes_ = 4096;
  unsigned page_bits_ = 12;
  // The lock guards all members below, except the atomics, `cache_`, and the functions that File
  // and Extents name as safe without a lock.
  File file_;
  Extents extents_;
  Promotion promotion_;
  Budget budget_;
  bool refused_ = false;  // the file could not be made; not tried again
  std::uint64_t looked_at_ms_ = 0;
  // Head of the list of extents that a thread freed while it held the lock (release_later()).
  // Relaxed: only the thread that holds the lock uses the list.
  std::atomic<Page> deferred_{kNoPage};
  std::atomic<std::uint64_t> bound_{0};  // most kept bytes, 0 if memory is short; relaxed: a hint
  std::atomic<std::uint64_t> collapsed_ms_{0};  // time of the last collapse_one(); relaxed: a hint
  Stats stats_{};
  BlockCache cache_;  // without the lock
};

}  // namespace mh::heap
