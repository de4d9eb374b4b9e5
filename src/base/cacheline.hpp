// SPDX-License-Identifier: BSD-3-Clause
// Cache lines: their length in bytes, and a hint to fetch one. Words that different threads write
// lie in different lines. Supported machines have lines of 64 bytes. The adjacent-line prefetcher
// is ignored: 128 bytes would double the node segment for no measured gain.
#pragma once

#include <cstddef>

namespace mh {
inline constexpr std::size_t kCacheLine = 64;

// Fetches a line that the caller is about to write, so that it moves between cores only once.
inline void prefetch_to_write(const void* line) {
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
}
}  // namespace mh
