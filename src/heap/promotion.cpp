// SPDX-License-Identifier: BSD-3-Clause
#include "heap/promotion.hpp"

#include <sys/mman.h>

#include "heap/file.hpp"
#include "heap/system.hpp"

namespace mh::heap {

void Promotion::add(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t start = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uint64_t end = (address + bytes) / kHugePage * kHugePage;
  if (start >= end) return;
  const std::size_t count = count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    if (ranges_[i].start <= start && end <= ranges_[i].end) return;
  }
  if (count == kRanges) return;
  ranges_[count] = {start, end, start, false};
  count_.store(count + 1, std::memory_order_relaxed);
}

std::uint64_t Promotion::next() {
  for (std::size_t looked = 0; looked < 2 * kRanges && !idle(); ++looked) {
    const std::size_t count = count_.load(std::memory_order_relaxed);
    current_ %= count;
    PageRange& range = ranges_[current_];
    if (range.at < range.end) {
      const std::uint64_t address = range.at;
      range.at += kHugePage;
      return address;
    }
    if (range.again) {
      range.at = range.start;
      range.again = false;
      ++current_;
      return 0;  // one pass at a time: nothing new may have been touched yet
    }
    range = ranges_[count - 1];
    count_.store(count - 1, std::memory_order_relaxed);
  }
  return 0;
}

void Promotion::settle(std::uint64_t address, bool untouched) {
  const std::size_t count = count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    PageRange& range = ranges_[i];
    if (range.start <= address && address < range.end) range.again = range.again || untouched;
  }
}

bool Promotion::collapse(std::uint64_t address) {
  const KeepErrno keep;
  const std::size_t page = page_bytes();
  unsigned char here[kHugePage / 4096];
  void* memory = reinterpret_cast<void*>(address);
  std::size_t touched = 0;
  if (::mincore(memory, kHugePage, here) == 0) {
    for (std::size_t i = 0; i < kHugePage / page; ++i) touched += here[i] & 1U;
  }
  const bool enough = touched >= kHugePage / page / 2;
  // If the kernel refuses (no huge page is free), the range is not tried again.
  if (enough) ::madvise(memory, kHugePage, kMadvCollapse);
  return enough;
}

}  // namespace mh::heap
