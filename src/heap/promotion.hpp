// SPDX-License-Identifier: BSD-3-Clause
// Huge pages for memory that has been touched.
//
// Private memory gets huge pages at first touch if transparent_hugepage/enabled says so or the
// program has asked for them; shared memory usually gets none (shmem_enabled). Linux 6.1 and later
// collapse existing pages on request (MADV_COLLAPSE). Promotion therefore lists ranges that would
// have huge pages if they were private. An allocation or release collapses one huge page of these
// ranges, at most once a clock tick (Heap::collapse_one()). A part of the size of a huge page, of
// which less than half has been touched, is checked again later. Not thread-safe: the caller holds
// a lock, except for collapse() and idle().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mh::heap {

class Promotion {
 public:
  // Adds the whole 2-MB pages of [address, address + bytes). Drops ranges that do not fit into the
  // list: huge pages only affect speed.
  void add(std::uint64_t address, std::uint64_t bytes);
  // Returns the address of the next 2-MB range to check. Returns 0 if no range is listed, or at the
  // end of a pass over a listed range whose untouched parts will be checked again.
  std::uint64_t next();
  // True if no range is listed at all. Relaxed: a hint, read without the heap's lock.
  [[nodiscard]] bool idle() const { return count_.load(std::memory_order_relaxed) == 0; }
  // Records whether the 2-MB range that next() returned was less than half touched: such a range is
  // checked again later.
  void settle(std::uint64_t address, bool untouched);

  // Makes the 2-MB range at `address` a huge page. False if less than half of it has been touched.
  static bool collapse(std::uint64_t address);

 private:
  struct PageRange {
    std::uint64_t start, end, at;
    bool again;  // a huge page of the range was not touched yet
  };
  static constexpr std::size_t kRanges = 64;
  PageRange ranges_[kRanges]{};
  std::atomic<std::size_t> count_{0};  // relaxed: written under the lock
  std::size_t current_ = 0;
};

}  // namespace mh::heap
