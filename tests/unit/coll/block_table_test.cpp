// SPDX-License-Identifier: BSD-3-Clause
#include "coll/block_table.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace mh::coll {
namespace {

constexpr std::uint64_t kBytes = kTableBytes + kStagedBytes;

struct Staged {
  std::unique_ptr<Board> board = std::make_unique<Board>();
  [[nodiscard]] std::byte* bytes() const { return board->long_blocks[0]; }
  [[nodiscard]] BlockTable table(std::uint32_t me, std::uint32_t members) const {
    return {bytes(), kBytes, me, Peers{members}};
  }
};

TEST(BlockTable, a_fresh_entry_has_no_block_and_has_read_nothing) {
  const Staged staged;
  std::memset(staged.bytes(), 0xff, kBytes);
  static_cast<void>(staged.table(0, 3));
  for (std::uint32_t peer = 1; peer < 3; ++peer) {
    const BlockEntry& entry = entry_for(peer, 0, Peers{3}, staged.bytes());
    EXPECT_EQ(entry.bytes, 0U);
    EXPECT_EQ(entry.expected, 0U);
    EXPECT_FALSE(entry.has_read());
  }
}

TEST(BlockTable, a_peer_finds_its_entry) {
  const Staged staged;
  BlockTable table = staged.table(1, 3);
  table.entry(0).bytes = 5;
  table.entry(2).bytes = 7;
  table.entry(2).note_read();
  EXPECT_EQ(entry_for(0, 1, Peers{3}, staged.bytes()).bytes, 5U);
  EXPECT_EQ(entry_for(2, 1, Peers{3}, staged.bytes()).bytes, 7U);
  EXPECT_TRUE(entry_for(2, 1, Peers{3}, staged.bytes()).has_read());
  EXPECT_FALSE(entry_for(0, 1, Peers{3}, staged.bytes()).has_read());
}

TEST(BlockTable, the_root_is_the_only_peer_of_other_members) {
  const Staged staged;
  constexpr Peers kPeers{.members = 5, .root = 2};
  BlockTable table(staged.bytes(), BlockTable::bytes_of(1) + 8, 4, kPeers);
  table.entry(2).bytes = 5;
  EXPECT_EQ(entry_for(2, 4, kPeers, staged.bytes()).bytes, 5U);
  EXPECT_EQ(table.reserve(8), BlockTable::bytes_of(1));
  EXPECT_EQ(kPeers.count(2), 4U);
  EXPECT_EQ(kPeers.index_of(4, 2), 3U);
}

TEST(BlockTable, a_table_of_two_with_a_word_fits_into_the_record) {
  EXPECT_EQ(BlockTable::bytes_of(1) + room_of(8), kInlineBytes);
}

TEST(BlockTable, a_short_table_moves_into_the_record_with_its_block) {
  Board board;
  alignas(BlockEntry) std::byte draft[kInlineBytes];
  BlockTable table(draft, kInlineBytes, 0, Peers{2});
  const std::uint64_t place = table.reserve(8);
  std::memcpy(table.at(place), "eight by", 8);
  table.entry(1).bytes = 8;
  table.move_inline(board.records[0].inlined);
  std::memset(draft, 0xff, sizeof draft);
  table.entry(1).note_read();
  const BlockEntry& entry = entry_for(1, 0, Peers{2}, board.records[0].inlined);
  EXPECT_EQ(entry.bytes, 8U);
  EXPECT_TRUE(entry.has_read());
  EXPECT_EQ(std::memcmp(board.records[0].inlined + place, "eight by", 8), 0);
}

TEST(BlockTable, data_lie_behind_the_entries_and_apart) {
  const Staged staged;
  BlockTable table = staged.table(0, 2);
  const std::uint64_t first = table.reserve(3);
  const std::uint64_t second = table.reserve(5);
  EXPECT_GE(first, BlockTable::bytes_of(1));
  EXPECT_GE(second, first + 3);
}

TEST(BlockTable, all_of_the_block_can_be_reserved_and_no_more) {
  const Staged staged;
  BlockTable table = staged.table(0, 2);
  const std::uint64_t room = kBytes - BlockTable::bytes_of(1);
  EXPECT_EQ(table.reserve(room + 1), 0U);
  EXPECT_NE(table.reserve(room), 0U);
  EXPECT_EQ(table.reserve(1), 0U);
}

TEST(BlockTable, the_most_members_leave_room_for_as_much_data_as_any_round_has) {
  const Staged staged;
  BlockTable table = staged.table(0, kMostMembers);
  EXPECT_NE(table.reserve(kStagedBytes), 0U);
}

}  // namespace
}  // namespace mh::coll
