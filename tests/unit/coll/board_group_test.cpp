// SPDX-License-Identifier: BSD-3-Clause
#include "coll/board_group.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "coll/block_table.hpp"

namespace mh::coll {
namespace {

// The boards of a group of ranks in this process, and each rank's BoardGroup.
struct Group {
  explicit Group(std::uint32_t ranks) {
    std::vector<Board*> all;
    for (std::uint32_t i = 0; i < ranks; ++i) {
      boards.push_back(std::make_unique<Board>());
      all.push_back(boards.back().get());
    }
    for (std::uint32_t i = 0; i < ranks; ++i) members.emplace_back(all, i);
  }

  std::vector<std::unique_ptr<Board>> boards;
  std::vector<BoardGroup> members;
};

constexpr auto kNeverWaits = [](auto&& done) { EXPECT_TRUE(done()); };
constexpr auto kYields = [](auto&& done) {
  while (!done()) std::this_thread::yield();
};

void put(BoardGroup& group, std::uint64_t value) {
  std::memcpy(group.stage(8, kNeverWaits), &value, 8);
}
std::uint64_t staged_value(const BoardGroup& group, std::uint32_t member) {
  std::uint64_t value = 0;
  std::memcpy(&value, group.staged_by(member, 8), 8);
  return value;
}

TEST(BoardGroup, an_empty_seat_takes_part_in_nothing) { EXPECT_FALSE(BoardGroup()); }

TEST(BoardGroup, a_record_is_seen_once_it_is_published) {
  Group group(2);
  BoardGroup& root = group.members[0];
  BoardGroup& leaf = group.members[1];
  root.begin(kNeverWaits);
  leaf.begin(kNeverWaits);
  put(root, 42);
  EXPECT_FALSE(leaf.has_come(0));
  root.publish_staged(7, 8);
  ASSERT_TRUE(leaf.has_come(0));
  EXPECT_EQ(leaf.route_of(0), Route::staged);
  EXPECT_EQ(leaf.record_of(0).terms, 7U);
  EXPECT_EQ(leaf.record_of(0).bytes, 8U);
  EXPECT_EQ(staged_value(leaf, 0), 42U);
}

TEST(BoardGroup, a_record_of_another_round_is_not_this_rounds) {
  Group group(2);
  BoardGroup& root = group.members[0];
  BoardGroup& leaf = group.members[1];
  root.begin(kNeverWaits);
  root.publish_staged(1, 0);
  leaf.begin(kNeverWaits);
  leaf.publish_library(1);
  leaf.begin(kNeverWaits);
  EXPECT_FALSE(leaf.has_come(0));
}

TEST(BoardGroup, data_lie_in_the_record_or_in_a_block) {
  Group group(2);
  BoardGroup& member = group.members[0];
  member.begin(kNeverWaits);
  Board& board = *group.boards[0];
  EXPECT_EQ(member.stage(kInlineBytes, kNeverWaits), board.records[1].inlined);
  EXPECT_EQ(member.stage(kInlineBytes + 1, kNeverWaits), board.short_blocks[1]);
  EXPECT_EQ(member.stage(kShortBytes, kNeverWaits), board.short_blocks[1]);
  EXPECT_EQ(member.stage(kShortBytes + 1, kNeverWaits), board.long_blocks[1]);
}

// Plays the root of collectives of `bytes` bytes (such as broadcasts) while the other rank, its
// leaf, is late. Returns the number of rounds that the root publishes before it has to wait for the
// leaf.
std::uint64_t rounds_ahead(std::uint64_t bytes) {
  Group group(2);
  BoardGroup& root = group.members[0];
  BoardGroup& leaf = group.members[1];
  bool waited = false;
  const auto let_leaf_come = [&](auto&& done) {
    EXPECT_FALSE(done());
    waited = true;
    leaf.begin(kNeverWaits);
    leaf.publish_library(0);
    EXPECT_TRUE(done());
  };
  for (std::uint64_t round = 1;; ++round) {
    root.begin(let_leaf_come);
    static_cast<void>(root.stage(bytes, let_leaf_come));
    if (waited) {
      EXPECT_EQ(leaf.record_of(0).terms, 1U);  // the leaf has not read round 1 yet
      return round - 1;
    }
    root.publish_staged(round, bytes);
  }
}

TEST(BoardGroup, a_root_runs_ahead_by_the_places_and_then_waits) {
  EXPECT_EQ(rounds_ahead(kInlineBytes), kRecords - 1);
  EXPECT_EQ(rounds_ahead(kShortBytes), kRecords - 1);
  EXPECT_EQ(rounds_ahead(kShortBytes + 1), kStaged - 1);
}

TEST(BoardGroup, members_that_have_been_seen_need_no_look) {
  Group group(2);
  for (int round = 0; round < 100; ++round) {
    for (BoardGroup& member : group.members) {
      member.begin(kNeverWaits);
      member.publish_staged(0, 0);
    }
    for (BoardGroup& member : group.members) member.note_all_came();
  }
}

TEST(BoardGroup, a_buffer_is_free_after_all_readers_have_finished) {
  Group group(2);
  for (BoardGroup& member : group.members) {
    member.begin(kNeverWaits);
    member.publish_mapped(0, 8, {.source = 1, .target = 2});
  }
  EXPECT_EQ(group.members[1].record_of(0).buffers.target, 2U);
  EXPECT_FALSE(group.members[0].has_finished(1));
  group.members[1].finish();
  EXPECT_TRUE(group.members[0].has_finished(1));
  EXPECT_FALSE(group.members[0].has_finished(0));
}

TEST(BoardGroup, a_board_starts_anew_for_another_group) {
  Group group(2);
  for (int round = 0; round < 3; ++round) {
    for (BoardGroup& member : group.members) {
      member.begin(kNeverWaits);
      member.publish_staged(0, 0);
      member.finish();
    }
  }
  std::vector<Board*> boards;
  for (auto& board : group.boards) {
    board->reset();
    boards.push_back(board.get());
  }
  BoardGroup fresh(boards, 0);
  fresh.begin(kNeverWaits);
  EXPECT_FALSE(fresh.has_come(1));
  EXPECT_FALSE(fresh.has_finished(1));
}

// Threads play the ranks of a group. They carry out rounds of all kinds one after another, with
// pauses between the steps of a rank.
class BoardGroupStress : public testing::TestWithParam<std::uint32_t> {};

enum class Kind : std::uint32_t { from_root, to_root, among_all, mapped, by_pairs, kinds };

struct Script {
  std::uint32_t ranks;
  std::uint64_t round;
  std::uint64_t draw;

  static Script of(std::uint32_t ranks, std::uint64_t round) {
    std::mt19937_64 random(round * 1000 + ranks);
    return {ranks, round, random()};
  }
  [[nodiscard]] Kind kind() const {
    return static_cast<Kind>(draw % static_cast<std::uint64_t>(Kind::kinds));
  }
  [[nodiscard]] std::uint32_t root() const {
    return static_cast<std::uint32_t>(draw >> 8U) % ranks;
  }
  [[nodiscard]] std::size_t words() const {
    constexpr std::array<std::size_t, 4> kWords = {1, 5, 6, kStagedBytes / 8};
    return kWords[(draw >> 40U) % kWords.size()];
  }
  // Returns the number of 8-byte words that rank `from` of the group sends to rank `to`; it is
  // often 0.
  [[nodiscard]] std::size_t block_words(std::uint32_t from, std::uint32_t to) const {
    std::mt19937_64 random(draw + std::uint64_t{from} * 64 + to);
    constexpr std::array<std::size_t, 4> kWords = {0, 1, 100, kStagedBytes / 8};
    return kWords[random() % kWords.size()];
  }
  [[nodiscard]] std::uint64_t word(std::uint32_t member, std::size_t at) const {
    return round * 1'000'003 + std::uint64_t{member} * 10'007 + at;
  }
};

class Player {
 public:
  Player(BoardGroup& group, std::uint32_t me) : group_(group), me_(me), random_(me + 1) {}

  void play(const Script& script) {
    group_.begin(kYields);
    pause();
    switch (script.kind()) {
      case Kind::from_root:
        me_ == script.root() ? stage(script) : group_.publish_library(0);
        if (me_ != script.root()) check_staged(script, script.root());
        break;
      case Kind::to_root:
        stage(script);
        for (std::uint32_t i = 0; me_ == script.root() && i < group_.ranks(); ++i)
          check_staged(script, i);
        break;
      case Kind::among_all:
        stage(script);
        for (std::uint32_t i = 0; i < group_.ranks(); ++i) check_staged(script, i);
        group_.note_all_came();
        break;
      case Kind::mapped:
        map(script);
        break;
      default:
        move_by_pairs(script);
    }
  }

 private:
  void pause() {
    const std::uint64_t draw = random_() % 16;
    if (draw < 4) std::this_thread::yield();
    if (draw == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  void fill(const Script& script, std::byte* to) {
    for (std::size_t at = 0; at < script.words(); ++at) {
      const std::uint64_t word = script.word(me_, at);
      std::memcpy(to + at * 8, &word, 8);
    }
  }
  void check(const Script& script, std::uint32_t member, const std::byte* data) {
    for (std::size_t at = 0; at < script.words(); ++at) {
      std::uint64_t word = 0;
      std::memcpy(&word, data + at * 8, 8);
      ASSERT_EQ(word, script.word(member, at)) << "round " << script.round;
    }
  }

  void stage(const Script& script) {
    fill(script, group_.stage(script.words() * 8, kYields));
    pause();
    group_.publish_staged(script.round, script.words() * 8);
  }
  void check_staged(const Script& script, std::uint32_t member) {
    kYields([&] { return group_.has_come(member); });
    pause();
    ASSERT_EQ(group_.record_of(member).terms, script.round);
    check(script, member, group_.staged_by(member, script.words() * 8));
  }

  // Plays a round of this rank whose data moves between mapped buffers. Each rank reads the buffers
  // of all ranks. The owner of a buffer changes it only once all ranks have finished the round.
  void map(const Script& script) {
    fill(script, buffer_.data());
    group_.publish_mapped(script.round, script.words() * 8,
                          {.source = reinterpret_cast<std::uint64_t>(buffer_.data())});
    for (std::uint32_t i = 0; i < group_.ranks(); ++i) {
      kYields([&] { return group_.has_come(i); });
      const std::uint64_t source = group_.record_of(i).buffers.source;
      check(script, i, reinterpret_cast<const std::byte*>(source));
      pause();
    }
    group_.note_all_came();
    group_.finish();
    for (std::uint32_t i = 0; i < group_.ranks(); ++i)
      kYields([&] { return group_.has_finished(i); });
  }

  // Plays a round of this rank in which each pair of ranks moves its blocks, through the board
  // (staged) or between mapped buffers. A rank waits only for ranks that send to it or read from
  // it. All blocks of a rank begin with the same words.
  static constexpr std::uint64_t kBytes = kTableBytes + kStagedBytes;
  void move_by_pairs(const Script& script) {
    BlockTable table(group_.stage(kBytes, kYields), kBytes, me_, Peers{group_.ranks()});
    for (std::uint32_t to = 0; to < group_.ranks(); ++to) {
      if (to != me_) offer(script, table, to);
    }
    pause();
    group_.publish_staged(script.round, kBytes);
    for (std::uint32_t from = 0; from < group_.ranks(); ++from) {
      if (from == me_ || script.block_words(from, me_) == 0) continue;
      take(script, from);
      table.entry(from).note_read();
    }
    for (std::uint32_t to = 0; to < group_.ranks(); ++to) {
      if (to != me_ && table.entry(to).route == Route::mapped) await_reader(to);
    }
  }
  void offer(const Script& script, BlockTable& table, std::uint32_t to) {
    BlockEntry& entry = table.entry(to);
    entry.bytes = script.block_words(me_, to) * 8;
    entry.expected = script.block_words(to, me_) * 8;
    if (entry.bytes == 0) return;
    entry.place = table.reserve(entry.bytes);
    entry.route = entry.place != 0 ? Route::staged : Route::mapped;
    if (entry.place == 0) entry.place = reinterpret_cast<std::uint64_t>(buffer_.data());
    std::byte* data = entry.route == Route::staged ? table.at(entry.place) : buffer_.data();
    for (std::size_t at = 0; at < entry.bytes / 8; ++at) {
      const std::uint64_t word = script.word(me_, at);
      std::memcpy(data + at * 8, &word, 8);
    }
  }
  [[nodiscard]] const BlockEntry& entry_of(std::uint32_t member) const {
    return entry_for(me_, member, Peers{group_.ranks()}, group_.staged_by(member, kBytes));
  }
  void take(const Script& script, std::uint32_t from) {
    kYields([&] { return group_.has_come(from); });
    pause();
    const BlockEntry& entry = entry_of(from);
    ASSERT_EQ(entry.bytes, script.block_words(from, me_) * 8);
    const std::byte* data = entry.route == Route::mapped
                                ? reinterpret_cast<const std::byte*>(entry.place)
                                : group_.staged_by(from, kBytes) + entry.place;
    for (std::size_t at = 0; at < entry.bytes / 8; ++at) {
      std::uint64_t word = 0;
      std::memcpy(&word, data + at * 8, 8);
      ASSERT_EQ(word, script.word(from, at)) << "round " << script.round;
    }
  }
  void await_reader(std::uint32_t to) {
    kYields([&] { return group_.has_come(to); });
    ASSERT_NE(entry_of(to).expected, 0U);
    kYields([&] { return entry_of(to).has_read(); });
  }

  BoardGroup& group_;
  std::uint32_t me_;
  std::mt19937_64 random_;
  std::array<std::byte, kStagedBytes> buffer_{};
};

TEST_P(BoardGroupStress, every_rank_reads_what_the_others_have_published) {
  constexpr std::uint64_t kRounds = 600;
  const std::uint32_t ranks = GetParam();
  Group group(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t me = 0; me < ranks; ++me) {
    threads.emplace_back([&group, me, ranks] {
      Player player(group.members[me], me);
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        player.play(Script::of(ranks, round));
        if (testing::Test::HasFatalFailure()) return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}
INSTANTIATE_TEST_SUITE_P(ranks, BoardGroupStress, testing::Values(2U, 3U, 7U));

TEST(SliceOf, slices_are_disjoint_and_cover_all_elements) {
  for (const std::size_t width : {1U, 4U, 8U, 16U}) {
    for (const std::size_t elements : {0U, 1U, 7U, 64U, 1000U, 12'345U}) {
      for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
        std::size_t next = 0;
        for (std::uint32_t me = 0; me < ranks; ++me) {
          const Slice slice = slice_of(elements, width, ranks, me);
          EXPECT_EQ(slice.begin, next);
          EXPECT_LE(slice.begin, slice.end);
          EXPECT_TRUE(slice.end == elements || slice.end * width % kCacheLine == 0);
          next = slice.end;
        }
        EXPECT_EQ(next, elements);
      }
    }
  }
}

}  // namespace
}  // namespace mh::coll
