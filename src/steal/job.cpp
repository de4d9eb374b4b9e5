// SPDX-License-Identifier: BSD-3-Clause
#include "steal/job.hpp"

#include <algorithm>

namespace mh::steal {

void Job::open(const CopySpec& work) {
  emulated::touch(&work_, emulated::Access::write);
  emulated::touch(&ticket_, emulated::Access::write);
  work_ = work;
  chunks_ = static_cast<std::uint32_t>((work.bytes + work.chunk_bytes - 1) / work.chunk_bytes);
  failures_.store(0, std::memory_order_relaxed);  // published by the release below
  done_.store(0, std::memory_order_relaxed);      // published by the same release
  // release: pairs with the acquire in take(). A thief that gets a chunk sees work_, chunks_ and
  // the cleared counts, all written above.
  ticket_.store((kBias + chunks_) * kOne, std::memory_order_release);
}

bool Job::take(Chunk& chunk, ClaimSide side) {
  const std::uint64_t step = side == ClaimSide::owner ? kOne : kOne - 1;
  emulated::touch(&ticket_, emulated::Access::write);
  // acquire: pairs with the release in open(). Later decrements by other thieves continue that
  // release sequence, so every claim synchronises with the open() that its count belongs to. A
  // claim publishes nothing, so it needs no release.
  const std::uint64_t ticket = ticket_.fetch_sub(step, std::memory_order_acquire);
  if (remaining(ticket) <= 0) return false;
  emulated::touch(&work_, emulated::Access::read);
  const std::uint64_t index = index_of(ticket, side);
  chunk.offset = index * work_.chunk_bytes;
  chunk.bytes = std::min<std::uint64_t>(work_.chunk_bytes, work_.bytes - chunk.offset);
  return true;
}

std::uint64_t Job::index_of(std::uint64_t ticket, ClaimSide side) const {
  const auto taken = chunks_ - static_cast<std::uint64_t>(remaining(ticket));
  const std::uint64_t by_others = ticket % kOne;
  switch (work_.order) {
    case CopyOrder::low_to_high:
      return taken;
    case CopyOrder::high_to_low:
      return chunks_ - 1 - taken;
    case CopyOrder::both_ends:
      break;
  }
  return chunk_at(side == ClaimSide::owner ? taken - by_others : chunks_ - 1 - by_others);
}

std::uint64_t Job::chunk_at(std::uint64_t position) const {
  if (work_.region_chunks == 0) return position;
  const std::uint64_t regions = chunks_ / work_.region_chunks;
  if (position >= regions * work_.region_chunks) return position;  // behind the last whole region
  return position % regions * work_.region_chunks + position / regions;
}

void Job::finish(bool succeeded) {
  emulated::touch(&done_, emulated::Access::write);
  if (!succeeded)
    failures_.fetch_add(1, std::memory_order_relaxed);  // published by the release below
  // release: pairs with the acquire in finished(). The owner sees the bytes that this thief has
  // copied, and its next open() comes after this thief's last read of work_ (I3 in job.hpp).
  done_.fetch_add(1, std::memory_order_release);
}

}  // namespace mh::steal
