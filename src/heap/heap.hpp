// SPDX-License-Identifier: BSD-3-Clause
// The heap: blocks of kThreshold bytes and more in memory that peers of the node can map.
//
// What it does not serve (small, more than the machine has, no memory, a limit of the process) it
// answers with nullptr, and the caller asks the next allocator: the program then gets the answer
// that it would have got without us.
//
//   block    what the program has. It begins in the first page of its extent, at a multiple of 256
//            bytes that differs from extent to extent: blocks of a power of two would else all
//            begin alike modulo 4096, and lie in the same sets of the cache.
//   kept     memory of freed blocks that is used again for the next, up to a bound; beyond, and
//            when memory is short, it goes back to the system. First touches are the dearest part
//            of shared memory.
//
// One lock; it is never held during a system call that takes memory from or gives memory to the
// system, but for growth (once in 64 MB). A thread that comes again while it holds the lock itself
// (in a signal handler, in a handler of fork()) does not wait: it is not served, and what it frees
// is freed at the next call. No thread-local data, no C++ run time, no destructor:
// calls may come before constructors, from threads that end, and after exit().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/conditions.hpp"
#include "heap/door.h"
#include "heap/extents.hpp"
#include "heap/file.hpp"
#include "heap/lock.hpp"
#include "heap/promotion.hpp"

namespace mh::heap {

// Where messages in it begin to gain (MH_MAPPED_THRESHOLD). An extent is whole pages, and a
// staggered block needs one more: a quarter of the smallest block, less than a tenth from 64 KB on.
inline constexpr std::size_t kThreshold = 16U << 10U;

using Stats = mh_heap_stats;

class Heap {
 public:
  struct Options {
    bool reserve = false;                // memory is taken when it is allocated (strict accounting)
    bool promote = false;                // private memory would get huge pages at first touch
    bool promote_asked = false;          // ... where the program asks for them
    std::uint64_t largest = UINT64_MAX;  // block that is served
    std::uint64_t keep = 256U << 20U;    // bound of what is kept
  };
  // Options that fit this machine.
  static Options options_for(const Facts& facts);

  // Once, before any other call but owns(). Nothing is mapped before the first block.
  void start(const Options& options);
  [[nodiscard]] bool started() const { return started_.load(std::memory_order_relaxed); }

  // `alignment` is a power of two. nullptr: not served; errno is as it was.
  void* allocate(std::size_t bytes, std::size_t alignment, bool zero);
  // Only for blocks of this heap. Anything else that lies in its memory is ignored.
  void release(void* block);
  // In place or moved; nullptr: neither, and the block is as it was.
  void* resize(void* block, std::size_t bytes);
  [[nodiscard]] std::size_t usable(const void* block);
  [[nodiscard]] bool owns(const void* address) const { return file_.holds(address); }
  // Gives all kept memory back.
  void trim();
  // Whether peers can reach all of it.
  [[nodiscard]] bool reaches(std::uint64_t address, std::size_t bytes);
  // That part of the heap or of static memory is for this process alone, until its block is freed.
  void isolate(const void* address, std::size_t bytes);
  // Whether a part of it is, or was, mapped from the heap's file.
  [[nodiscard]] bool touches(const void* address, std::size_t bytes) const;
  // Those pages hold nothing any more.
  void empty(const void* address, std::size_t bytes);
  // The program has asked for huge pages there.
  void wants_huge(const void* address, std::size_t bytes);
  // Makes huge pages of touched memory, where private memory would have had them: at most `chunks`
  // of 2 MB; for whoever has time. False: nothing to do for now.
  bool improve(unsigned chunks);

  [[nodiscard]] File& file() { return file_; }
  // Makes the file, if nothing has been allocated yet; false: there is none.
  bool ensure_file();
  [[nodiscard]] Stats stats();

  // Around fork(): the lock is held in between. False: this thread held it before.
  bool lock() { return lock_.enter(); }
  void unlock() { lock_.leave(); }
  // The first broken invariant, or nullptr.
  [[nodiscard]] const char* check();

 private:
  // What is asked for: `room` bytes or more are taken for a block of `bytes`.
  struct Wish {
    std::size_t bytes;
    std::size_t room;
    std::size_t alignment = 1;
    bool fresh = false;  // from memory that holds nothing
  };

  [[nodiscard]] bool open_locked();
  [[nodiscard]] bool grow_locked(std::size_t bytes);
  [[nodiscard]] bool make_room_for_tags(std::size_t pages);
  Taken take_locked(const Wish& wish);
  Taken take(const Wish& wish);
  void count_locked(Page first, std::size_t bytes);
  void discount_locked(Page first);
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
  bool improve_one();

  Lock lock_;
  std::atomic<bool> started_{false};
  // Written by start() alone.
  Options options_;
  std::size_t page_bytes_ = 4096;
  unsigned page_bits_ = 12;
  // All below: under the lock, but for what File and the atomics say.
  File file_;
  Extents extents_;
  Promotion promotion_;
  Tag* tags_ = nullptr;
  std::size_t tag_bytes_ = 0;
  bool refused_ = false;  // no file; not tried again
  std::uint64_t looked_at_ms_ = 0;
  // First of the blocks that this thread freed while it held the lock. Relaxed: one thread.
  std::atomic<Page> deferred_{kNoPage};
  std::atomic<std::uint64_t> bound_{0};        // of kept bytes, now; relaxed: a hint
  std::atomic<std::uint64_t> improved_ms_{0};  // relaxed: a hint
  Stats stats_{};
};

}  // namespace mh::heap
