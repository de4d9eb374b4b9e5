// SPDX-License-Identifier: BSD-3-Clause
// The blocks that a member of a board group has for each of its peers, and what it expects of them.
//
// In a round with blocks of any length, only the two members of a pair know the length of their
// block. Each member therefore stages a *block table*: one entry for each peer, and behind the
// entries the data of the blocks that fit. A member needs the table of no peer but those it
// exchanges data with.
//
// Threads: as the board group. The owner writes its table before it publishes the round; `read` is
// all that it changes afterwards. Limits: kMostMembers, so that half of a staged block is left for
// data.
//
// Source: the project's own; see docs/decisions/collective/blocks-of-any-length.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "coll/board_group.hpp"

namespace mh::coll {

struct BlockEntry {
  // Where the peer finds its block: behind the table's begin (Route::staged), or in the owner's
  // process (Route::mapped). The owner sends the block as a message (Route::library).
  std::uint64_t place = 0;
  std::uint64_t bytes = 0;     // of the block for the peer; 0: none
  std::uint64_t expected = 0;  // bytes of the block that the owner expects of the peer
  Route route = Route::library;
  // The owner has read the peer's mapped block. release by the owner; acquire in has_read().
  std::atomic<bool> read{false};

  [[nodiscard]] bool has_read() const { return read.load(std::memory_order_acquire); }
  void note_read() { read.store(true, std::memory_order_release); }
};
static_assert(sizeof(BlockEntry) == 32);

inline constexpr std::uint32_t kMostMembers = kStagedBytes / 2 / sizeof(BlockEntry);

// This member's table, at the begin of its staged block.
class BlockTable {
 public:
  BlockTable(std::byte* staged, std::uint32_t members)
      : staged_(staged), entries_(new (staged) BlockEntry[members]), end_(bytes_of(members)) {}

  [[nodiscard]] BlockEntry& entry(std::uint32_t peer) { return entries_[peer]; }
  [[nodiscard]] std::byte* at(std::uint64_t place) { return staged_ + place; }

  // Reserves room for data. 0: there is none left.
  std::uint64_t reserve(std::uint64_t bytes) {
    if (bytes > kStagedBytes - end_) return 0;
    const std::uint64_t place = end_;
    end_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }

 private:
  static constexpr std::uint64_t kAlignment = 8;
  static_assert(kStagedBytes % kAlignment == 0);
  static constexpr std::uint64_t bytes_of(std::uint32_t members) {
    return members * sizeof(BlockEntry);
  }

  std::byte* staged_;
  BlockEntry* entries_;
  std::uint64_t end_;  // of the data
};

// The entry for `member` in the table of a peer that has published the round.
inline const BlockEntry& entry_for(std::uint32_t member, const std::byte* staged) {
  return std::launder(reinterpret_cast<const BlockEntry*>(staged))[member];
}

}  // namespace mh::coll
