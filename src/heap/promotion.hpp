// SPDX-License-Identifier: BSD-3-Clause
// Huge pages for memory that has been touched.
//
// Private memory gets huge pages at its first touch where transparent_hugepage/enabled says so, or
// where the program has asked for them; shared memory usually never (shmem_enabled). Linux 6.1 and
// later can be asked to collapse pages that are there, so the heap remembers ranges whose private
// counterpart would have been huge, and somebody with time (an allocation, a wait) lets a few be
// collapsed. A range of which less than half has been touched is left alone for the present. Not
// thread-safe: next() and add() under the caller's lock; collapse() and idle() without it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mh::heap {

class Promotion {
 public:
  // The whole 2-MB pages of [address, address + bytes). What does not fit into the list any more is
  // forgotten: huge pages are a matter of speed.
  void add(std::uint64_t address, std::uint64_t bytes);
  // The next huge page to look at, 0: none now.
  std::uint64_t next();
  // Whether next() has nothing at all. Relaxed: a hint.
  [[nodiscard]] bool idle() const { return count_.load(std::memory_order_relaxed) == 0; }
  // What came of next(): untouched ones are looked at again, later.
  void settle(std::uint64_t address, bool untouched);

  // Collapses the huge page at `address`. False: not enough of it has been touched.
  static bool collapse(std::uint64_t address);

 private:
  struct Range {
    std::uint64_t start, end, at;
    bool again;  // some of it was not touched
  };
  static constexpr std::size_t kRanges = 64;
  Range ranges_[kRanges]{};
  std::atomic<std::size_t> count_{0};  // relaxed: written under the lock
  std::size_t current_ = 0;
};

}  // namespace mh::heap
