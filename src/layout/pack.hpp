// SPDX-License-Identifier: BSD-3-Clause
// Packs and unpacks any byte range of the packed stream of a layout's elements.
//
// The packed stream is the output of MPI_Pack: the bytes of all elements in type map order. The
// time for a range is proportional to its bytes and blocks, plus the depth of the layout, wherever
// the range begins. Ranges can therefore be handed out in any order. No function allocates or
// fails; bytes of a range beyond the stream's end are ignored.
//
// Gaps are never written. Bytes of gaps are read only between the short runs of a list
// (pack_short_runs()). Stream and memory must not overlap. Threads: any, also several at once on
// disjoint ranges.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "layout/layout.hpp"
#include "layout/walk.hpp"

namespace mh::layout {

// Whether the bytes of elements are in the caches before a copy, and should be there after it; or
// in memory alone, because they are too many for the caches.
enum class CacheLevel : std::uint8_t { caches, memory };

// The most bytes of the last cache that a message is expected to find free. Many cores, or several
// virtual machines, share a larger cache.
inline constexpr std::uint64_t kMostCache = 32U << 20U;

// Returns how `bytes` bytes are copied. Copies go past the caches if source and target together
// exceed the last cache (`last_cache` bytes, of which kMostCache count; 0: not known). The bytes
// that are copied first would otherwise be evicted before any use.
constexpr CacheLevel cache_level_of(std::uint64_t bytes, std::uint64_t last_cache) {
  const std::uint64_t cache = std::min(last_cache, kMostCache);
  return cache != 0 && bytes > cache / 2 ? CacheLevel::memory : CacheLevel::caches;
}

// `count` elements of a layout, the first one at address `base`. For list_blocks() alone, `base`
// may be an address of another process.
struct Elements {
  const Layout* layout = nullptr;
  std::uint64_t count = 0;
  Address base = 0;
  CacheLevel cache_level = CacheLevel::caches;

  // The length of the packed stream in bytes; at most the largest std::int64_t.
  [[nodiscard]] std::uint64_t bytes() const {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(layout->size(), count, &bytes)) {
      bytes = std::numeric_limits<std::int64_t>::max();
    }
    return static_cast<std::uint64_t>(bytes);
  }
};

inline Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// Pack elements into a range of their stream, or unpack them from it. `packed` holds the range
// alone, from its first byte on. Return the number of bytes moved.
std::uint64_t pack_range(const Elements& from, StreamRange range, void* packed);
std::uint64_t unpack_range(const Elements& to, StreamRange range, const void* packed);

// Do the same as pack_range() and unpack_range() for contiguous bytes, without a layout.
void copy_from(CacheLevel cache_level, void* packed, const void* from, std::size_t bytes);
void copy_to(CacheLevel cache_level, void* to, const void* packed, std::size_t bytes);
// Does the same as copy_to() for bytes that another core has written and may have in its caches.
void fetch_to(CacheLevel cache_level, void* to, const void* from, std::size_t bytes);

// Copies a range from layout to layout through a scratch buffer that stays in the first cache
// levels; at most kScratch bytes of `scratch` are used. If either end is contiguous, or the source
// has long blocks, no scratch is needed; it is used nevertheless if both ends have
// CacheLevel::memory. All other copies move nothing if `scratch` is empty. Returns the bytes moved.
inline constexpr std::size_t kScratch = 64U << 10U;
std::uint64_t copy_range(const Elements& to, const Elements& from, StreamRange range,
                         std::span<std::byte> scratch);

// The number of blocks that list_blocks() has listed, and the bytes in all of them.
struct ListedBlocks {
  std::size_t used;
  std::uint64_t bytes;
};
// Lists addresses and lengths of the blocks of a range in `room`, for process_vm_readv() and the
// like, until `room` is full. The last block is cut at the end of the range.
ListedBlocks list_blocks(const Elements& of, StreamRange range, std::span<iovec> room);

}  // namespace mh::layout
