// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/internode/pieces.hpp"

#include <cstdlib>

namespace mh::mpi::internode {
namespace {

constexpr std::size_t kMostBuffers = 512;  // in use for all messages of this rank together
constexpr std::size_t kFreeBuffers = 32;   // at most, kept allocated and not in use

}  // namespace

PieceBuffers piece_buffers;
std::optional<p2p::PackPipelines> pack_pipelines;

bool PieceBuffers::has_room_for(std::uint64_t pieces) {
  const std::lock_guard<std::mutex> hold(mutex_);
  return used_ + pieces <= kMostBuffers;
}

std::byte* PieceBuffers::acquire() {
  const std::lock_guard<std::mutex> hold(mutex_);
  if (!free_.empty()) {
    ++used_;
    std::byte* last = free_.back();
    free_.pop_back();
    return last;
  }
  auto* fresh = static_cast<std::byte*>(std::aligned_alloc(4096, kPiece));
  used_ += fresh == nullptr ? 0 : 1;
  return fresh;
}

void PieceBuffers::release(std::byte* buffer) {
  const std::lock_guard<std::mutex> hold(mutex_);
  --used_;
  if (free_.size() < kFreeBuffers) {
    free_.push_back(buffer);
  } else {
    std::free(buffer);
  }
}

}  // namespace mh::mpi::internode
