// SPDX-License-Identifier: BSD-3-Clause
// Copying bytes that another core has written and may still have in its caches.
//
// A cache line from another core takes tens of nanoseconds, and the hardware prefetcher does not
// hide that latency within a page or two. The copy therefore reads four *lanes* abreast: the
// quarters of a piece of 32 KB. docs/decisions/memory has the gain. Threads: any. Limit: x86-64
// processors with 32-byte registers (kHasWide); for other processors is_abreast() is false.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cacheline.hpp"
#include "layout/move_blocks.hpp"

namespace mh::layout::detail {

constexpr std::size_t kLanesAbreast = 4;
// The number of cache lines in a lane is 32 * n + 25, so that no two lanes use the same set of the
// first cache at the same time.
constexpr std::size_t kLeastLane = 25;
constexpr std::size_t kLaneStep = 32;
constexpr std::size_t kPieceAbreast = 32U << 10U;
// The least and the greatest size in bytes of the blocks that are copied faster in lanes. Longer
// blocks are not: they are chunks of messages that are too long for the second cache.
constexpr std::size_t kLeastAbreast = 16U << 10U;
constexpr std::size_t kMostAbreast = 64U << 10U;

// Copies four equally long lanes (adjacent parts) from the beginning of `bytes` bytes, line by line
// in turn. Returns the number of bytes copied, 0 if the lanes would be too short; the caller copies
// the rest.
[[gnu::target("avx2")]] inline std::size_t copy_lanes(std::byte* to, const std::byte* from,
                                                      std::size_t bytes) {
  const std::size_t share = bytes / kCacheLine / kLanesAbreast;
  if (share < kLeastLane) return 0;
  const std::size_t lines = (share - kLeastLane) / kLaneStep * kLaneStep + kLeastLane;
  const std::size_t lane = lines * kCacheLine;
  for (std::size_t at = 0; at < lane; at += kCacheLine) {
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kLanesAbreast; ++k) {
      const std::size_t line = at + k * lane;
      const __m256i part = load_wide(from + line);
      const __m256i half = load_wide(from + line + 32);
      store_wide(to + line, part);
      store_wide(to + line + 32, half);
    }
  }
  return lane * kLanesAbreast;
}

inline void copy_abreast(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t begin = 0; begin < bytes; begin += kPieceAbreast) {
    const std::size_t piece = std::min(bytes - begin, kPieceAbreast);
    std::byte* target = to + begin;
    const std::byte* source = from + begin;
    // The bytes before the target's first whole cache line. Behind them no store of a lane crosses
    // a cache line.
    std::size_t done = std::min(-reinterpret_cast<std::uintptr_t>(target) % kCacheLine, piece);
    std::memcpy(target, source, done);
    done += copy_lanes(target + done, source + done, piece - done);
    std::memcpy(target + done, source + done, piece - done);
  }
}

inline bool is_abreast(std::size_t bytes) {
  return kHasWide && bytes >= kLeastAbreast && bytes <= kMostAbreast;
}

}  // namespace mh::layout::detail
