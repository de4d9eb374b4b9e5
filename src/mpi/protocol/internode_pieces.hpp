// SPDX-License-Identifier: BSD-3-Clause
// What both ends of internode pipelines share: how a message is cut into pieces, the tags of these,
// the buffers they travel in, and the pipelines that pack and unpack them.
//
// A piece is kPiece bytes of the packed stream; only the last one is shorter. Buffers are of that
// size, page-aligned, and counted for the whole process. Any thread may take and give them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "layout/pack.hpp"
#include "mpi/tags.hpp"
#include "p2p/descriptor.hpp"
#include "p2p/pack_pipeline.hpp"

namespace mh::mpi::internode {

inline constexpr std::uint64_t kPiece = 256U << 10U;

struct Cut {
  std::uint64_t bytes;
  std::uint64_t piece;
  [[nodiscard]] std::uint64_t pieces() const { return (bytes + piece - 1) / piece; }
  [[nodiscard]] layout::StreamRange range(std::uint64_t index) const {
    return {index * piece, std::min(bytes, (index + 1) * piece)};
  }
};

// Of the pieces of a message, among all between two ranks. An internode pipeline may be used again
// while the library still holds pieces of its last message, so its number would not do.
inline int tag_of(const p2p::Descriptor& descriptor) {
  return tags::kPieces[descriptor.generation % tags::kPieces.count];
}

inline int length_of(layout::StreamRange range) {
  return static_cast<int>(range.end - range.begin);
}

// The buffers of pieces. What was given back last is still in the cache: it is taken first.
class PieceBuffers {
 public:
  // So many more may be used.
  bool allows(std::uint64_t pieces);
  // Null where memory is short.
  std::byte* take();
  void give(std::byte* buffer);

 private:
  std::mutex mutex_;
  std::vector<std::byte*> free_;
  std::size_t used_ = 0;
};
extern PieceBuffers piece_buffers;

// Made by start(), gone after stop(); there while config.internode.
extern std::optional<p2p::PackPipelines> pack_pipelines;

}  // namespace mh::mpi::internode
