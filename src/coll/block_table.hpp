// SPDX-License-Identifier: BSD-3-Clause
// Blocks of any length in a round: a member's blocks for each of its peers, and the lengths of the
// blocks that the member expects of the peers.
//
// The members of a board group (board_group.hpp) are the ranks of a communicator that carry out
// collectives together. In a round with blocks of any length, only the two members of a pair know
// the length of their block. Each member therefore writes a *block table* to its staged block, the
// part of its board for data that its peers read. The table has one entry for each peer; behind the
// entries follow the data of the blocks that fit. A member reads only the tables of peers with
// which it exchanges data. In a call with a root, the root is the only peer of all other members.
//
// Threads: one at a time on each member, as for the board group. The owner of a table writes it
// before it publishes its record of the round; after that it changes only BlockEntry::read. Limit:
// kMostMembers members.
//
// Source: the project's own; see docs/decisions/collective/blocks-of-any-length.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "coll/board_group.hpp"

namespace mh::coll {

struct BlockEntry {
  // The place of the block that the owner of the table has for the peer of this entry: an offset
  // from the table's begin (Route::staged), or an address in the owner's process (Route::mapped).
  // With Route::library the block comes as a message.
  std::uint64_t place = 0;
  std::uint64_t bytes = 0;     // of the block for the peer; 0: none
  std::uint64_t expected = 0;  // bytes of the block that the owner expects of the peer
  Route route = Route::library;
  // True once the owner of the table has read the block that the peer of this entry has for it, if
  // that block is mapped. release by the owner; acquire by the peer in has_read().
  std::atomic<bool> read{false};

  [[nodiscard]] bool has_read() const { return read.load(std::memory_order_acquire); }
  void note_read() { read.store(true, std::memory_order_release); }
};
static_assert(sizeof(BlockEntry) == 32);

inline constexpr std::uint32_t kMostMembers = kTableBytes / sizeof(BlockEntry) + 1;

// The bytes that a block of `length` bytes takes up behind a block table: rounded up to a multiple
// of 8.
constexpr std::uint64_t room_of(std::uint64_t length) { return (length + 7) / 8 * 8; }

// The peers of a member, a rank in the collective: the members with which it exchanges blocks.
// These are all other members. In a call with a root, the root is the only peer of every other
// member.
struct Peers {
  std::uint32_t members;
  std::uint32_t root = kNoRoot;

  static constexpr std::uint32_t kNoRoot = 0xffffffff;

  // True if the root is the only peer of the member `owner`: the call has a root, and the root is
  // another member.
  [[nodiscard]] constexpr bool only_root(std::uint32_t owner) const {
    return root != kNoRoot && owner != root;
  }
  [[nodiscard]] constexpr std::uint32_t count(std::uint32_t owner) const {
    return only_root(owner) ? 1 : members - 1;
  }
  // The index of the entry for the member `peer` in the block table of the member `owner`. The
  // table has no entry for `owner` itself.
  [[nodiscard]] constexpr std::uint32_t index_of(std::uint32_t peer, std::uint32_t owner) const {
    return only_root(owner) ? 0 : peer - (peer > owner ? 1 : 0);
  }
};

// The block table of this rank. It lies at the begin of this rank's staged block
// (BoardGroup::stage()), the part of its board for data that its peers read.
class BlockTable {
 public:
  // `staged`: this rank's staged block for the round, the part of its board for the table and the
  // blocks behind it. It has `bytes` bytes, at least bytes_of(the number of peers). `me`: the index
  // of this rank among the members.
  BlockTable(std::byte* staged, std::uint64_t bytes, std::uint32_t me, const Peers& peers)
      : staged_(staged),
        bytes_(bytes),
        me_(me),
        peers_(peers),
        entries_(new (staged) BlockEntry[peers.count(me)]),
        end_(bytes_of(peers.count(me))) {}

  static constexpr std::uint64_t bytes_of(std::uint32_t peers) {
    return peers * sizeof(BlockEntry);
  }

  [[nodiscard]] BlockEntry& entry(std::uint32_t peer) {
    return entries_[peers_.index_of(peer, me_)];
  }
  [[nodiscard]] std::byte* at(std::uint64_t place) { return staged_ + place; }

  // Moves the table, and the blocks behind it, to the kInlineBytes bytes at `staged`. Precondition:
  // no peer has seen the table, and it was given at most kInlineBytes bytes.
  void move_inline(std::byte* staged) {
    std::memcpy(staged, staged_, kInlineBytes);
    staged_ = staged;
    entries_ = std::launder(reinterpret_cast<BlockEntry*>(staged));
  }

  // Reserves room for a block of `length` bytes behind the entries of this rank's block table.
  // Returns the offset of the room from the table's begin, or 0 if the staged block, in which the
  // table lies, has too little room left.
  std::uint64_t reserve(std::uint64_t length) {
    if (room_of(length) > bytes_ - end_) return 0;
    const std::uint64_t place = end_;
    end_ += room_of(length);
    return place;
  }

 private:
  std::byte* staged_;
  std::uint64_t bytes_;
  std::uint32_t me_;
  Peers peers_;
  BlockEntry* entries_;
  std::uint64_t end_;  // of the reserved room, from the table's begin
};

// The entry for `member` in the block table of its peer `owner`. `staged`: the part of that peer's
// board that begins with the table. The peer must have published its record of the round.
inline const BlockEntry& entry_for(std::uint32_t member, std::uint32_t owner, const Peers& peers,
                                   const std::byte* staged) {
  const auto* entries = std::launder(reinterpret_cast<const BlockEntry*>(staged));
  return entries[peers.index_of(member, owner)];
}

}  // namespace mh::coll
