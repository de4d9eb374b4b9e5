// SPDX-License-Identifier: BSD-3-Clause
// Packing and unpacking any byte range of the packed stream of elements of a layout.
//
// The packed stream is what MPI_Pack writes: the bytes of all elements in type map order. A range
// takes time in proportion to its bytes and blocks, plus the depth of the layout, wherever in the
// stream it lies; so ranges can be handed out in any order, to anyone. Nothing is allocated and
// nothing fails; of a range that reaches beyond the stream only the part within is moved.
//
// Gaps are never written, and of their bytes only those between the runs of a list of short ones
// may be read (pack_short_runs() says which). Stream and memory must not overlap. Layouts and
// buffers are read-only here: any thread, also several at once on disjoint ranges.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "layout/layout.hpp"
#include "layout/walk.hpp"

namespace mh::layout {

// Where the bytes of elements are expected to be, and should be once they are written: somewhere in
// the caches, or in memory because there are too many.
enum class CacheLevel : std::uint8_t { caches, memory };

// So many bytes that are copied do not fit the last cache (0: not known) together with their
// source: nobody finds there what was written, or read, first.
constexpr CacheLevel cache_level_of(std::uint64_t bytes, std::uint64_t last_cache) {
  return last_cache != 0 && bytes > last_cache / 2 ? CacheLevel::memory : CacheLevel::caches;
}

// `count` elements at `base`, which may be another process's address where only blocks() is asked.
struct Elements {
  const Layout* layout = nullptr;
  std::uint64_t count = 0;
  Address base = 0;
  CacheLevel cache_level = CacheLevel::caches;

  // Bytes of the packed stream; stops at the largest number.
  [[nodiscard]] std::uint64_t bytes() const {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(layout->size(), count, &bytes)) {
      bytes = std::numeric_limits<std::int64_t>::max();
    }
    return static_cast<std::uint64_t>(bytes);
  }
};

inline Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// Bytes moved: those of the range.
std::uint64_t pack(const Elements& from, Range range, void* packed);
std::uint64_t unpack(const Elements& to, Range range, const void* packed);

// The same for contiguous bytes.
void copy_from(CacheLevel cache_level, void* packed, const void* from, std::size_t bytes);
void copy_to(CacheLevel cache_level, void* to, const void* packed, std::size_t bytes);
// As copy_to(), of bytes that another core has written.
void fetch_to(CacheLevel cache_level, void* to, const void* from, std::size_t bytes);

// From layout to layout, by way of a scratch that stays in the first cache levels (kScratch bytes
// of it are used at most; without any, nothing is copied). Ends that are contiguous, and sources of
// long blocks, need none, unless all is in memory.
inline constexpr std::size_t kScratch = 64U << 10U;
std::uint64_t copy(const Elements& to, const Elements& from, Range range,
                   std::span<std::byte> scratch);

// The blocks of a range as addresses and lengths, for process_vm_readv and its like: as many as
// there is room for, the last one cut off at the end of the range. `bytes` of the range are
// covered.
struct Blocks {
  std::size_t used;
  std::uint64_t bytes;
};
Blocks blocks(const Elements& of, Range range, std::span<iovec> room);

}  // namespace mh::layout
