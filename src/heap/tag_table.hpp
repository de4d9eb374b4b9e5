// SPDX-License-Identifier: BSD-3-Clause
// The boundary tags of all pages of a heap (extents.hpp), in a few arrays that never move: a thread
// reads the tags of its own block while another thread makes room for more.
//
// Address space is taken for one array at a time, because a program may have a limit on it. Not
// thread-safe: the caller holds a lock, except for operator[] on the tags of its own used extent.
// The destructor frees nothing: the heap lives as long as its process.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace mh::heap {

using Page = std::uint32_t;
inline constexpr Page kNoPage = UINT32_MAX;

enum class ExtentState : std::uint8_t { none, used, kept, empty, leaving };

// Describes the extent (run of pages) to which a page belongs; a tag for each page, zero at first.
// The tag of an extent's first page has all fields, that of its last page has `pages` and `state`;
// the tags between are stale.
struct BoundaryTag {
  Page pages;
  Page next, previous;  // in the bin; in a used extent the number of note()
  Page younger,
      older;  // by age of kept extents; in a used extent, `older` links the list of chain()
  ExtentState state;
  std::uint8_t first;  // 1: the first page of an extent
};
static_assert(sizeof(BoundaryTag) == 24);

class TagTable {
 public:
  // Makes room for the tags of pages [0, pages). False if there is no memory.
  bool reach(std::size_t pages) {
    for (; chunks_made_ * kChunkPages < pages; ++chunks_made_) {
      if (chunks_made_ == kChunks) return false;
      void* room = ::mmap(nullptr, kChunkPages * sizeof(BoundaryTag), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (room == MAP_FAILED) return false;
      chunks_[chunks_made_] = static_cast<BoundaryTag*>(room);
    }
    return true;
  }

  BoundaryTag& operator[](Page page) { return chunks_[page / kChunkPages][page % kChunkPages]; }
  const BoundaryTag& operator[](Page page) const {
    return chunks_[page / kChunkPages][page % kChunkPages];
  }

 private:
  static constexpr std::size_t kChunkPages = 16384;  // 64 MB of heap, with pages of 4 KB
  static constexpr std::size_t kChunks = 65536;

  std::array<BoundaryTag*, kChunks> chunks_{};
  std::size_t chunks_made_ = 0;
};

}  // namespace mh::heap
