// SPDX-License-Identifier: BSD-3-Clause
// The victims that a thief chooses, with all ranks in this process. processes_test.cpp tests copies
// between processes.
#include "steal/thief.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "support/ranks.hpp"

namespace mh::steal {
namespace {

// Eight ranks in this process: ranks 0 to 3 are on NUMA node 0, ranks 4 to 7 on NUMA node 1.
struct Fixture : test::Ranks {
  explicit Fixture(std::uint32_t ranks = 8) : Ranks(ranks, 2), from(100'000), to(100'000, 0) {
    std::iota(from.begin(), from.end(), 0U);
  }
  // Opens a job of `rank` in one of its job slots. The SlotKeeper, by which the rank opens the job,
  // lives as long as the fixture.
  Job& expose(std::uint32_t rank, std::uint32_t chunk_bytes = 10'000) {
    keepers.push_back(std::make_unique<SlotKeeper>(area(rank).slots(), node(rank).boards(), rank));
    return *keepers.back()->open(
        {view(to), view(from), from.size(), chunk_bytes, CopyOrder::low_to_high});
  }
  static memory::View view(std::vector<std::uint8_t>& bytes) {
    return {reinterpret_cast<std::uint64_t>(bytes.data()), ::getpid(), 0};
  }
  std::vector<std::uint8_t> from;
  std::vector<std::uint8_t> to;
  std::vector<std::unique_ptr<SlotKeeper>> keepers;
};

void idle(Fixture& f, std::initializer_list<std::uint32_t> ranks) {
  for (const std::uint32_t rank : ranks) f.node(rank).mine().idle.store(1);
}

TEST(Thief, finds_nothing_where_nobody_has_work) {
  Fixture f;
  Thief thief = f.thief(0, Strategy::mixed);
  EXPECT_FALSE(thief.help());
}

TEST(Thief, copies_chunk_by_chunk_until_the_job_is_done) {
  Fixture f;
  Job& job = f.expose(1);
  Thief thief = f.thief(0, Strategy::localized);
  for (int chunk = 0; chunk < 10; ++chunk) {
    EXPECT_FALSE(job.finished());
    EXPECT_TRUE(thief.help());
  }
  EXPECT_TRUE(job.finished());
  EXPECT_FALSE(job.failed());
  EXPECT_EQ(f.to, f.from);
  EXPECT_FALSE(thief.help());
  EXPECT_FALSE(node::may_hold_chunk_of(f.node(0).mine(), 1));
}

// A chunk takes every third byte from the source and writes single bytes, backwards, into the
// target.
TEST(Thief, moves_scattered_bytes_straight_to_their_places) {
  Fixture f;
  constexpr std::int64_t kCount = 30'000;
  const layout::LayoutPtr byte = *layout::named(1, 1);
  const layout::LayoutPtr third = *layout::vector(kCount, 1, 3, *byte);
  const Shapes shapes{.to = *layout::compact_of(**layout::hvector(kCount, 1, -2, *byte), 1),
                      .from = *layout::compact_of(*third, 1)};
  SlotKeeper keeper(f.area(1).slots(), f.node(1).boards(), 1);
  memory::View to = Fixture::view(f.to);
  to.address += f.to.size() - 1;  // backwards from the end
  CopySpec work{to, Fixture::view(f.from), kCount, 10'000, CopyOrder::low_to_high};
  work.shaped = true;
  Job* job = keeper.open(work, &shapes);
  Thief thief = f.thief(0, Strategy::localized);
  for (int chunk = 0; chunk < 3; ++chunk) EXPECT_TRUE(thief.help());
  ASSERT_TRUE(job->finished());
  EXPECT_FALSE(job->failed());
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(f.to[f.to.size() - 1 - 2 * i], f.from[3 * i]) << i;
    ASSERT_EQ(f.to[f.to.size() - 2 - 2 * i], 0) << i;
  }
  keeper.close(*job);
}

// A receiver whose job slots are all in use copies alone, without a job.
TEST(Thief, copies_scattered_bytes_without_a_job) {
  Fixture f;
  constexpr std::int64_t kCount = 30'000;
  const layout::LayoutPtr byte = *layout::named(1, 1);
  const Shapes shapes{.to = layout::compact_of_bytes(kCount),
                      .from = *layout::compact_of(**layout::vector(kCount, 1, 3, *byte), 1)};
  CopySpec work{Fixture::view(f.to), Fixture::view(f.from), kCount, 10'000, CopyOrder::low_to_high};
  work.shaped = true;
  Thief thief = f.thief(0, Strategy::localized);
  ASSERT_TRUE(thief.copy_shaped(work, shapes, {.offset = 0, .bytes = kCount}).ok());
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(f.to[i], f.from[3 * i]) << i;
  EXPECT_EQ(f.to[kCount], 0);
}

TEST(Thief, finds_no_job_that_is_for_those_who_are_told) {
  Fixture f;
  SlotKeeper keeper(f.area(1).slots(), f.node(1).boards(), 1);
  const CopySpec work{Fixture::view(f.to), Fixture::view(f.from), 1000, 1000,
                      CopyOrder::low_to_high};
  Job* job = keeper.open(work, nullptr, JobVisibility::sender);
  Thief thief = f.thief(0, Strategy::localized);
  EXPECT_FALSE(thief.help());
  EXPECT_FALSE(thief.help_rank(1));
  EXPECT_TRUE(thief.run_one_chunk(*job, 1));
  EXPECT_TRUE(job->finished());
  keeper.close(*job);
  EXPECT_FALSE(keeper.any_in_use());
}

TEST(Thief, does_not_help_itself_by_help) {
  Fixture f;
  f.expose(2);
  EXPECT_FALSE(f.thief(2, Strategy::mixed).help());
}

TEST(Thief, runs_chunks_of_its_own_job) {
  Fixture f;
  Job& job = f.expose(2, 50'000);
  Thief owner = f.thief(2, Strategy::throughput);
  EXPECT_TRUE(owner.run_one_chunk(job, 2));
  EXPECT_TRUE(owner.run_one_chunk(job, 2));
  EXPECT_FALSE(owner.run_one_chunk(job, 2));
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(f.area(2).counters().own_chunks_received.get(), 2U);
  EXPECT_EQ(f.area(2).counters().own_bytes_received.get(), f.from.size());
}

TEST(Thief, shares_a_job_with_the_thread_that_waits_for_the_job) {
  Fixture f;
  Job& job = f.expose(1);
  Thief owner = f.thief(1, Strategy::mixed);
  Thief thief = f.thief(0, Strategy::mixed);
  int by_thief = 0;
  while (owner.claim_and_copy(job, 1)) by_thief += thief.run_one_chunk(job, 1) ? 1 : 0;
  EXPECT_EQ(by_thief, 5);
  EXPECT_TRUE(job.finished());
  EXPECT_FALSE(job.failed());
  EXPECT_EQ(f.to, f.from);
}

TEST(Thief, writes_no_byte_beyond_the_job) {
  Fixture f;
  constexpr std::uint64_t kPart = 10'001;
  SlotKeeper keeper(f.area(1).slots(), f.node(1).boards(), 1);
  Job* job = keeper.open(
      {Fixture::view(f.to), Fixture::view(f.from), kPart, 4000, CopyOrder::low_to_high});
  Thief owner = f.thief(1, Strategy::mixed);
  while (owner.claim_and_copy(*job, 1)) {
  }
  ASSERT_TRUE(job->finished());
  EXPECT_TRUE(std::equal(f.to.begin(), f.to.begin() + kPart, f.from.begin()));
  EXPECT_EQ(f.to[kPart], 0);
  keeper.close(*job);
}

TEST(Thief, reports_memory_that_no_process_can_read) {
  Fixture f;
  SlotKeeper keeper(f.area(1).slots(), f.node(1).boards(), 1);
  const memory::View nowhere{.address = 64, .pid = ::getppid(), .rank = 0};
  Job* job = keeper.open({Fixture::view(f.to), nowhere, 1000, 400, CopyOrder::low_to_high});
  Thief owner = f.thief(1, Strategy::mixed);
  while (owner.claim_and_copy(*job, 1)) {
  }
  ASSERT_TRUE(job->finished());
  EXPECT_TRUE(job->failed());
  keeper.close(*job);
  EXPECT_FALSE(keeper.any_in_use());
}

TEST(Thief, leaves_a_job_unfinished_while_another_thief_holds_a_chunk) {
  Fixture f;
  SlotKeeper keeper(f.area(1).slots(), f.node(1).boards(), 1);
  Job* job =
      keeper.open({Fixture::view(f.to), Fixture::view(f.from), 1000, 400, CopyOrder::low_to_high});
  Chunk held{};
  ASSERT_TRUE(job->claim(held));
  Thief owner = f.thief(1, Strategy::mixed);
  while (owner.claim_and_copy(*job, 1)) {
  }
  EXPECT_FALSE(job->finished());
  keeper.close(*job);  // an owner does this if a thief has died
  EXPECT_FALSE(keeper.any_in_use());
}

TEST(Thief, prefers_a_victim_of_its_own_numa_node) {
  Fixture f;
  Job& near = f.expose(3);
  Job& far = f.expose(5);
  Thief thief = f.thief(0, Strategy::mixed);
  for (int chunk = 0; chunk < 10; ++chunk) ASSERT_TRUE(thief.help());
  EXPECT_FALSE(near.has_work());
  Chunk first{};
  ASSERT_TRUE(far.claim(first));
  EXPECT_EQ(first.offset, 0U) << "nobody has been there";
}

TEST(Thief, localized_never_leaves_its_numa_node) {
  Fixture f;
  f.expose(5);
  idle(f, {4, 5, 6, 7});
  EXPECT_FALSE(f.thief(0, Strategy::localized).help());
  EXPECT_TRUE(f.thief(4, Strategy::localized).help());
}

TEST(Thief, localized_leaves_an_own_message_to_a_receiver_of_another_numa_node) {
  Fixture f;
  EXPECT_FALSE(f.thief(0, Strategy::localized).may_copy_for(5));
  EXPECT_TRUE(f.thief(0, Strategy::localized).may_copy_for(3));
  EXPECT_TRUE(f.thief(0, Strategy::mixed).may_copy_for(5));
  EXPECT_TRUE(f.thief(0, Strategy::throughput, 1).may_copy_for(5)) << "however busy it is";
}

TEST(Thief, follows_ranks_that_move_to_another_numa_node) {
  Fixture f;
  f.expose(5);
  Thief thief = f.thief(0, Strategy::localized);
  EXPECT_FALSE(thief.help());
  f.node(0).mine().numa.store(1);
  EXPECT_TRUE(thief.help()) << "the thief has come";
  f.node(5).mine().numa.store(0);
  EXPECT_FALSE(thief.help()) << "the victim has left";
}

TEST(Thief, mixed_helps_another_numa_node_however_busy_it_is) {
  Fixture f;
  f.expose(5);
  EXPECT_TRUE(f.thief(0, Strategy::mixed, 1).help());
}

TEST(Thief, throughput_helps_another_numa_node_only_below_saturation) {
  Fixture f;
  f.expose(5);
  Thief thief = f.thief(0, Strategy::throughput, 3);
  EXPECT_FALSE(thief.help()) << "4 of 4 active";
  idle(f, {4});
  EXPECT_FALSE(thief.help()) << "3 of 4 active";
  idle(f, {6});
  EXPECT_TRUE(thief.help()) << "2 of 4 active";
}

TEST(Thief, saturation_does_not_matter_on_the_own_numa_node) {
  Fixture f;
  f.expose(1);
  EXPECT_TRUE(f.thief(0, Strategy::throughput, 1).help());
}

TEST(Thief, spreads_evenly_over_all_victims_also_over_several_words_of_the_board) {
  Fixture f(200);  // ranks 0-99 are on the thief's NUMA node
  std::vector<Job*> jobs;
  for (std::uint32_t rank = 1; rank < 200; ++rank) jobs.push_back(&f.expose(rank, 1'000));
  Thief thief = f.thief(0, Strategy::mixed);
  for (int i = 0; i < 2'000; ++i) ASSERT_TRUE(thief.help());
  // On average each of the 99 ranks of the thief's NUMA node is the victim 20 times. The random
  // numbers are the same in every run.
  std::set<std::uint32_t> near;
  for (std::uint32_t rank = 1; rank < 200; ++rank) {
    Chunk next{};
    if (!jobs[rank - 1]->claim(next) || next.offset == 0) continue;
    near.insert(rank);
    EXPECT_GT(next.offset, 5'000U) << rank;
    EXPECT_LT(next.offset, 50'000U) << rank;
  }
  EXPECT_EQ(near.size(), 99U) << "each near victim was helped, no far one";
  EXPECT_LT(*near.rbegin(), 100U);
}

TEST(Thief, a_thief_that_got_no_chunk_of_a_job_helps_with_the_next_job_of_its_slot) {
  Fixture f;
  SlotKeeper keeper(f.area(1).slots(), f.node(1).boards(), 1);
  const CopySpec work{Fixture::view(f.to), Fixture::view(f.from), 100'000, 100'000,
                      CopyOrder::low_to_high};
  Thief thief = f.thief(0, Strategy::localized);
  Job* first = keeper.open(work);
  Chunk taken{};
  ASSERT_TRUE(first->claim(taken));
  EXPECT_FALSE(thief.help());
  EXPECT_FALSE(thief.help());
  first->finish(true);
  keeper.close(*first);
  ASSERT_EQ(keeper.open(work), first);
  EXPECT_TRUE(thief.help());
}

// The last rank, the only idle one, looks at a board on which a job of two chunks is posted late.
TEST(Thief, an_idle_rank_far_from_the_owner_comes_when_chunks_stay_unclaimed) {
  Fixture f(4 * node::kBoardRanks + 1);
  SlotKeeper keeper(f.area(1).slots(), f.node(1).boards(), 1);
  Thief thief = f.thief(4 * node::kBoardRanks, Strategy::mixed);
  Job* job = keeper.open(
      {Fixture::view(f.to), Fixture::view(f.from), 20'000, 10'000, CopyOrder::low_to_high});
  EXPECT_FALSE(thief.help());
  for (int board = 1; board < 5; ++board) keeper.show_more(*job);
  EXPECT_TRUE(thief.help());
  keeper.hide(*job);
  keeper.show_more(*job);
  EXPECT_FALSE(thief.help()) << "the job is hidden";
}

TEST(Thief, finds_nothing_in_a_job_whose_chunks_are_claimed) {
  Fixture f;
  Thief thief = f.thief(0, Strategy::localized);
  // The node's work board (a bit for each rank with an open job) shows rank 1, but the only chunk
  // of its job has been claimed before help() looks.
  Job& job = f.expose(1, 100'000);
  Chunk taken{};
  ASSERT_TRUE(job.claim(taken));
  EXPECT_FALSE(thief.help());
}

TEST(Thief, helps_the_rank_it_is_told_to) {
  Fixture f;
  f.expose(1);
  Job& asked = f.expose(6);
  Thief thief = f.thief(0, Strategy::localized);
  EXPECT_TRUE(thief.help_rank(6)) << "whatever the strategy says";
  Chunk next{};
  ASSERT_TRUE(asked.claim(next));
  EXPECT_EQ(next.offset, 10'000U);
  EXPECT_FALSE(thief.help_rank(2));
}

TEST(Thief, a_copy_that_fails_fails_the_job) {
  Fixture f;
  auto keeper = f.keeper(1);
  const memory::View nobody{0x1000, 0x3fffffff, 1};  // above the largest pid of Linux
  Job* job = keeper.open({Fixture::view(f.to), nobody, 5'000, 5'000, CopyOrder::low_to_high});
  Thief thief = f.thief(0, Strategy::localized);
  EXPECT_TRUE(thief.help());
  EXPECT_TRUE(job->finished());
  EXPECT_TRUE(job->failed());
  EXPECT_EQ(f.area(0).counters().own_bytes_received.get(), 0U) << "only what was copied counts";
}

}  // namespace
}  // namespace mh::steal
