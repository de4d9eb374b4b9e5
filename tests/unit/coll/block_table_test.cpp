// SPDX-License-Identifier: BSD-3-Clause
#include "coll/block_table.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace mh::coll {
namespace {

struct Staged {
  std::unique_ptr<Board> board = std::make_unique<Board>();
  [[nodiscard]] std::byte* bytes() const { return board->staged[0]; }
};

TEST(BlockTable, a_fresh_entry_has_no_block_and_has_read_nothing) {
  const Staged staged;
  std::memset(staged.bytes(), 0xff, kStagedBytes);
  const BlockTable table(staged.bytes(), 3);
  for (std::uint32_t peer = 0; peer < 3; ++peer) {
    const BlockEntry& entry = entry_for(peer, staged.bytes());
    EXPECT_EQ(entry.bytes, 0U);
    EXPECT_EQ(entry.expected, 0U);
    EXPECT_FALSE(entry.has_read());
  }
}

TEST(BlockTable, a_peer_finds_its_entry) {
  const Staged staged;
  BlockTable table(staged.bytes(), 3);
  table.entry(1).bytes = 7;
  table.entry(1).note_read();
  EXPECT_EQ(entry_for(1, staged.bytes()).bytes, 7U);
  EXPECT_TRUE(entry_for(1, staged.bytes()).has_read());
  EXPECT_FALSE(entry_for(2, staged.bytes()).has_read());
}

TEST(BlockTable, data_lie_behind_the_entries_and_apart) {
  const Staged staged;
  BlockTable table(staged.bytes(), 2);
  const std::uint64_t first = table.reserve(3);
  const std::uint64_t second = table.reserve(5);
  EXPECT_GE(first, 2 * sizeof(BlockEntry));
  EXPECT_GE(second, first + 3);
}

TEST(BlockTable, all_of_the_block_can_be_reserved_and_no_more) {
  const Staged staged;
  BlockTable table(staged.bytes(), 2);
  const std::uint64_t room = kStagedBytes - 2 * sizeof(BlockEntry);
  EXPECT_EQ(table.reserve(room + 1), 0U);
  EXPECT_NE(table.reserve(room), 0U);
  EXPECT_EQ(table.reserve(1), 0U);
}

TEST(BlockTable, the_most_members_leave_half_of_the_block) {
  const Staged staged;
  BlockTable table(staged.bytes(), kMostMembers);
  EXPECT_NE(table.reserve(kStagedBytes / 2), 0U);
}

}  // namespace
}  // namespace mh::coll
