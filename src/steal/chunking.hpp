// SPDX-License-Identifier: BSD-3-Clause
// The chunk size of a message, and the end from which it is copied (CAB-MPI, III-E).
//
// On-demand chunking: large messages have large chunks, because each system call costs the same.
// Small messages have small chunks, so that every thief gets a chunk. Limit: a chunk must not take
// longer than about 100 us, hence kMaxChunk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/cacheline.hpp"
#include "base/settings.hpp"
#include "steal/job.hpp"

namespace mh::steal {

inline constexpr std::uint32_t kMinChunk = 4U << 10U;
inline constexpr std::uint32_t kMaxChunk = 512U << 10U;  // 85 us for a third rank, at 6 GB/s

inline constexpr std::uint32_t kLeastGuidedChunk = 32U << 10U;

// Returns the chunk size of a guided job whose longest claims shall have about `chunk` bytes.
constexpr std::uint32_t guided_chunk(std::uint32_t chunk) {
  return std::min(chunk, std::max(chunk / kMostChunks, kLeastGuidedChunk));
}

class Chunking {
 public:
  // Makes an object from the rules of the setting MH_CHUNK: a message of at least rule.at_least
  // bytes has chunks of rule.chunk bytes. The rules are ascending by at_least, and not empty. Chunk
  // sizes are clamped to [kMinChunk, kMaxChunk] and rounded down to cache lines.
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

// The order of chunks for a program that reads received data in the order `access`. The data that
// the program reads first is copied last, so that it is still in the cache: a program that reads
// upwards wants the chunks from high to low. If the order is not known, the owner claims from the
// low end and all other ranks claim from the high end, so that each core's cache keeps its own
// part.
constexpr CopyOrder order_for(AccessOrder access) {
  switch (access) {
    case AccessOrder::low_to_high:
      return CopyOrder::high_to_low;
    case AccessOrder::high_to_low:
      return CopyOrder::low_to_high;
    case AccessOrder::random:
      break;
  }
  return CopyOrder::both_ends;
}

}  // namespace mh::steal
