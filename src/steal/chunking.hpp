// SPDX-License-Identifier: BSD-3-Clause
// How a transfer is cut, and from which end (CAB-MPI, III-E).
//
// On-demand chunking: large messages take large chunks (a system call costs the same for each),
// small ones take small chunks (so that there is one for every hand). Limit: a chunk is a unit of
// work and must not take longer than about 100 us, hence kMaxChunk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/cacheline.hpp"
#include "base/settings.hpp"
#include "steal/job.hpp"

namespace mh::steal {

inline constexpr std::uint32_t kMinChunk = 4U << 10U;
inline constexpr std::uint32_t kMaxChunk = 512U << 10U;  // a third party copies 6 GB/s: 85 us

class Chunking {
 public:
  // `rules` ascending by at_least, not empty; chunk sizes are brought into [kMinChunk, kMaxChunk]
  // and to multiples of a cache line.
  explicit Chunking(const std::vector<ChunkRule>& rules) : rules_(rules) {
    constexpr auto kLine = static_cast<std::uint32_t>(kCacheLine);
    for (ChunkRule& rule : rules_) {
      rule.chunk = std::clamp(rule.chunk, kMinChunk, kMaxChunk) / kLine * kLine;
    }
  }

  [[nodiscard]] std::uint32_t chunk_for(std::uint64_t bytes) const {
    std::uint32_t chunk = rules_.front().chunk;
    for (const ChunkRule& rule : rules_) {
      if (bytes < rule.at_least) break;
      chunk = rule.chunk;
    }
    return chunk;
  }

 private:
  std::vector<ChunkRule> rules_;
};

// The end from which to copy. What the program touches first after the call is copied last, so that
// it is still in cache: a program that goes from low to high addresses wants the chunks from high
// to low. Without such knowledge, whatever keeps caches apart.
constexpr Order order_for(AccessOrder access) {
  switch (access) {
    case AccessOrder::low_to_high:
      return Order::high_to_low;
    case AccessOrder::high_to_low:
      return Order::low_to_high;
    case AccessOrder::random:
      break;
  }
  return Order::both_ends;
}

}  // namespace mh::steal
