// SPDX-License-Identifier: BSD-3-Clause
#include "steal/chunking.hpp"

#include <algorithm>

#include "base/cacheline.hpp"

namespace mh::steal {

Chunking::Chunking(const std::vector<ChunkRule>& rules) : rules_(rules) {
  constexpr auto kLine = static_cast<std::uint32_t>(kCacheLine);
  for (ChunkRule& rule : rules_) {
    rule.chunk = std::clamp(rule.chunk, kMinChunk, kMaxChunk) / kLine * kLine;
  }
}

}  // namespace mh::steal
