// SPDX-License-Identifier: BSD-3-Clause
// The common part of both ends of internode pipelines: the pieces of a message, their tags, their
// buffers, and the pipelines that pack and unpack them.
//
// A piece is kPiece bytes of the packed stream; only the last piece is shorter. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "layout/pack.hpp"
#include "mpi/tags.hpp"
#include "p2p/pack_pipeline.hpp"
#include "p2p/rts_header.hpp"

namespace mh::mpi::internode {

inline constexpr std::uint64_t kPiece = 256U << 10U;

// The division of a message of `bytes` bytes into pieces of `piece` bytes.
struct PieceSplit {
  std::uint64_t bytes;
  std::uint64_t piece;
  [[nodiscard]] std::uint64_t pieces() const { return (bytes + piece - 1) / piece; }
  [[nodiscard]] layout::StreamRange range(std::uint64_t index) const {
    return {index * piece, std::min(bytes, (index + 1) * piece)};
  }
};

// The tag of the pieces of a message, from the number that the message has between its sender and
// its receiver. A tag for each SendId, the index of a send under way, would be wrong: the MPI
// library may still hold pieces of the previous message with that index.
inline int tag_of(const p2p::RtsHeader& header) {
  return tags::kPieces[header.generation % tags::kPieces.count];
}

inline int length_of(layout::StreamRange range) {
  return static_cast<int>(range.end - range.begin);
}

// The piece buffers of this process: kPiece bytes each, page-aligned. The buffer released last is
// acquired first, since that buffer is still in the cache. Any thread.
class PieceBuffers {
 public:
  // True if a message with this many pieces keeps this rank within kMostBuffers buffers in use.
  bool has_room_for(std::uint64_t pieces);
  // Returns a buffer of kPiece bytes; null if there is no memory.
  std::byte* acquire();
  void release(std::byte* buffer);

 private:
  std::mutex mutex_;
  std::vector<std::byte*> free_;
  std::size_t used_ = 0;
};
extern PieceBuffers piece_buffers;

// The pack pipelines (p2p/pack_pipeline.hpp) by which threads of this process pack and unpack
// pieces. The object exists while config.internode is true: from internode::start() to stop().
extern std::optional<p2p::PackPipelines> pack_pipelines;

}  // namespace mh::mpi::internode
