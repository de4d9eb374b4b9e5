// SPDX-License-Identifier: BSD-3-Clause
#include "steal/job.hpp"

#include <algorithm>

namespace mh::steal {

void Job::open(const CopySpec& work, Chunk* first) {
  emulated::touch(&work_, emulated::Access::write);
  emulated::touch(&ticket_, emulated::Access::write);
  work_ = work;
  chunks_ = static_cast<std::uint32_t>((work.bytes + work.chunk_bytes - 1) / work.chunk_bytes);
  failures_.store(0, std::memory_order_relaxed);  // published by the release below
  done_.store(0, std::memory_order_relaxed);      // published by the same release
  std::uint64_t ticket = chunks_ * kOne + (work.guided ? 1 : 0);
  if (first != nullptr) {
    *first = chunk_of(ticket, ClaimSide::owner);
    ticket -= first->count * kOne;
  }
  // release: pairs with the acquire in take(). A thief that gets a chunk sees work_, chunks_ and
  // the cleared counts, all written above.
  ticket_.store(ticket, std::memory_order_release);
}

bool Job::take(Chunk& chunk, ClaimSide side) {
  const std::uint64_t step = side == ClaimSide::owner ? kOne : kOne - kOther;
  std::uint64_t ticket = ticket_.load(std::memory_order_relaxed);
  do {
    if (left_of(ticket) == 0) return false;
    // acquire: pairs with the release in open(). Later claims by other thieves continue that
    // release sequence, so every claim synchronises with the open() that its chunks belong to. A
    // claim publishes nothing, so it needs no release.
  } while (!ticket_.compare_exchange_weak(ticket, ticket - count_of(ticket) * step,
                                          std::memory_order_acquire, std::memory_order_relaxed));
  emulated::touch(&work_, emulated::Access::read);
  chunk = chunk_of(ticket, side);
  return true;
}

Chunk Job::chunk_of(std::uint64_t ticket, ClaimSide side) const {
  const std::uint32_t count = count_of(ticket);
  const std::uint64_t offset = index_of(ticket, side, count) * work_.chunk_bytes;
  const std::uint64_t most = std::uint64_t{count} * work_.chunk_bytes;
  return {.offset = offset, .bytes = std::min(most, work_.bytes - offset), .count = count};
}

std::uint64_t Job::index_of(std::uint64_t ticket, ClaimSide side, std::uint32_t count) const {
  const std::uint64_t taken = chunks_ - left_of(ticket);
  const std::uint64_t by_others = ticket % kOne / kOther;
  switch (work_.order) {
    case CopyOrder::low_to_high:
      return taken;
    case CopyOrder::high_to_low:
      return chunks_ - count - taken;
    case CopyOrder::both_ends:
      break;
  }
  return chunk_at(side == ClaimSide::owner ? taken - by_others : chunks_ - count - by_others);
}

std::uint64_t Job::chunk_at(std::uint64_t position) const {
  if (work_.region_chunks == 0) return position;
  const std::uint64_t regions = chunks_ / work_.region_chunks;
  if (position >= regions * work_.region_chunks) return position;  // behind the last whole region
  return position % regions * work_.region_chunks + position / regions;
}

bool Job::finish(bool succeeded, std::uint32_t chunks) {
  emulated::touch(&done_, emulated::Access::write);
  if (!succeeded)
    failures_.fetch_add(1, std::memory_order_relaxed);  // published by the release below
  // release: pairs with the acquire in finished(). The owner sees the bytes that this thief has
  // copied, and its next open() comes after this thief's last read of work_ (I3 in job.hpp).
  done_.fetch_add(chunks, std::memory_order_release);
  return left_of(ticket_.load(std::memory_order_relaxed)) > 0;  // a hint, as in left()
}

}  // namespace mh::steal
