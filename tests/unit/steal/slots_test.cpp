// SPDX-License-Identifier: BSD-3-Clause
#include "steal/slots.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::steal {
namespace {

constexpr std::uint32_t kRank = 70;  // the board has this rank's bit in its second word

struct Fixture {
  std::unique_ptr<JobSlots> slots = std::make_unique<JobSlots>();
  std::unique_ptr<node::WorkBoard> board = std::make_unique<node::WorkBoard>();
  SlotKeeper keeper{*slots, {board.get(), 1}, kRank};
};

const CopySpec kWork{{0, 0, 0}, {0, 0, 0}, 100, 100, CopyOrder::low_to_high};

void run(Job& job) {
  for (Chunk chunk{}; job.claim(chunk);) job.finish(true);
}

TEST(Slots, an_open_job_is_on_the_board_until_the_last_one_is_closed) {
  Fixture f;
  EXPECT_FALSE(f.board->posted(kRank));
  Job* first = f.keeper.open(kWork);
  Job* second = f.keeper.open(kWork);
  ASSERT_TRUE(first != nullptr && second != nullptr && first != second);
  EXPECT_TRUE(f.board->posted(kRank));
  run(*first);
  f.keeper.close(*first);
  EXPECT_TRUE(f.board->posted(kRank));
  run(*second);
  f.keeper.close(*second);
  EXPECT_FALSE(f.board->posted(kRank));
  EXPECT_FALSE(f.keeper.any_in_use());
}

TEST(Slots, a_hidden_job_is_not_looked_at_but_keeps_its_slot) {
  Fixture f;
  Job* job = f.keeper.open(kWork);
  f.keeper.hide(*job);
  f.keeper.hide(*job);
  EXPECT_FALSE(f.board->posted(kRank));
  EXPECT_EQ(f.slots->open.load(), 0U);
  EXPECT_NE(f.keeper.open(kWork), job);
  EXPECT_TRUE(f.board->posted(kRank));
}

TEST(Slots, hiding_one_job_leaves_another_posted) {
  Fixture f;
  Job* first = f.keeper.open(kWork);
  f.keeper.open(kWork);
  f.keeper.hide(*first);
  f.keeper.hide(*first);
  EXPECT_TRUE(f.board->posted(kRank));
}

// Five boards, and jobs of a rank that has the third board.
struct FiveBoards {
  static constexpr std::uint32_t kOwner = 2 * node::kBoardRanks + 3;
  std::vector<node::WorkBoard> boards = std::vector<node::WorkBoard>(5);
  std::unique_ptr<JobSlots> slots = std::make_unique<JobSlots>();
  SlotKeeper keeper{*slots, boards, kOwner};

  [[nodiscard]] std::vector<int> posted() const {
    std::vector<int> found;
    for (const node::WorkBoard& board : boards) found.push_back(board.posted(kOwner) ? 1 : 0);
    return found;
  }
};

CopySpec chunks(std::uint32_t count) {
  CopySpec work = kWork;
  work.bytes = std::uint64_t{count} * work.chunk_bytes;
  return work;
}

TEST(Slots, a_job_is_posted_for_as_many_ranks_as_it_has_chunks) {
  FiveBoards f;
  Job* few = f.keeper.open(chunks(node::kBoardRanks - 1));
  EXPECT_EQ(f.posted(), (std::vector<int>{0, 0, 1, 1, 0}));
  f.keeper.close(*few);
  Job* more = f.keeper.open(chunks(2 * node::kBoardRanks));
  EXPECT_EQ(f.posted(), (std::vector<int>{1, 1, 1, 1, 0}));
  f.keeper.close(*more);
  Job* most = f.keeper.open(chunks(20 * node::kBoardRanks));
  EXPECT_EQ(f.posted(), std::vector<int>(5, 1));
  f.keeper.close(*most);
  EXPECT_EQ(f.posted(), std::vector<int>(5, 0));
}

TEST(Slots, a_job_with_chunks_left_is_posted_further_until_all_ranks_see_it) {
  FiveBoards f;
  Job* job = f.keeper.open(chunks(node::kBoardRanks + 1));
  EXPECT_EQ(f.posted(), (std::vector<int>{1, 0, 1, 1, 0}));
  f.keeper.show_more(*job);
  EXPECT_EQ(f.posted(), std::vector<int>(5, 1));
  run(*job);
  f.keeper.hide(*job);
  EXPECT_EQ(f.posted(), std::vector<int>(5, 0));
}

TEST(Slots, a_job_without_chunks_left_or_for_its_sender_alone_is_not_posted_further) {
  FiveBoards f;
  Job* job = f.keeper.open(kWork);
  run(*job);
  f.keeper.show_more(*job);
  EXPECT_EQ(f.posted(), (std::vector<int>{0, 0, 1, 1, 0}));
  f.keeper.close(*job);
  f.keeper.show_more(*f.keeper.open(chunks(node::kBoardRanks + 1), nullptr, JobVisibility::sender));
  EXPECT_EQ(f.posted(), std::vector<int>(5, 0));
}

TEST(Slots, the_owner_has_its_first_chunk_before_others_see_the_job) {
  Fixture f;
  Chunk first{};
  Job* job = f.keeper.open(chunks(2), nullptr, JobVisibility::node, &first);
  EXPECT_EQ(first.offset, 0U);
  EXPECT_EQ(first.bytes, 100U);
  EXPECT_EQ(job->left(), 1U);
  EXPECT_FALSE(job->finished());
}

// Two threads of the owner: one shows a job while the other hides the only job that was shown.
TEST(Slots, a_job_shown_while_another_is_hidden_is_posted_on_the_owners_board) {
  constexpr int kTimes = test::kSanitized ? 2'000 : 20'000;
  FiveBoards f;
  std::barrier<> together(2);
  std::thread other([&] {
    for (int i = 0; i < kTimes; ++i) {
      Job* hidden = f.keeper.open(chunks(1));
      together.arrive_and_wait();
      f.keeper.close(*hidden);
      together.arrive_and_wait();
      together.arrive_and_wait();
    }
  });
  int lost = 0;
  for (int i = 0; i < kTimes; ++i) {
    together.arrive_and_wait();
    Job* shown = f.keeper.open(chunks(1));
    together.arrive_and_wait();
    lost += 1 - f.posted()[2];
    f.keeper.close(*shown);
    together.arrive_and_wait();
  }
  other.join();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(f.posted(), std::vector<int>(5, 0));
}

TEST(Slots, all_in_use_is_said_and_a_closed_one_is_used_again) {
  Fixture f;
  std::set<Job*> jobs;
  for (std::uint32_t i = 0; i < kSlots; ++i) jobs.insert(f.keeper.open(kWork));
  EXPECT_EQ(jobs.size(), kSlots);
  EXPECT_EQ(jobs.count(nullptr), 0U);
  EXPECT_EQ(f.keeper.open(kWork), nullptr);
  Job* some = *jobs.begin();
  run(*some);
  f.keeper.close(*some);
  EXPECT_EQ(f.keeper.open(kWork), some);
}

TEST(Slots, a_slot_whose_chunks_dead_thieves_hold_is_hidden_and_reused) {
  Fixture f;
  Job* job = f.keeper.open(kWork);
  Chunk chunk{};
  while (job->claim(chunk)) {
  }  // the thieves die
  EXPECT_FALSE(job->finished());
  f.keeper.close(*job);
  EXPECT_FALSE(f.board->posted(kRank));
  ASSERT_EQ(f.keeper.open(kWork), job);
  run(*job);
  EXPECT_TRUE(job->finished());
}

TEST(Slots, threads_of_one_rank_never_share_a_slot_and_leave_an_empty_board) {
  Fixture f;
  std::atomic<int> wrong{0};
  std::vector<int> holders(kSlots, 0);  // not atomic: take() and give_back() order the accesses
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5'000; ++round) {
        Job* job = f.keeper.open(kWork);
        if (job == nullptr) continue;
        int& holder = holders[static_cast<std::size_t>(job - f.slots->jobs)];
        if (++holder != 1) wrong.fetch_add(1);
        run(*job);
        if (--holder != 0) wrong.fetch_add(1);
        f.keeper.close(*job);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_FALSE(f.keeper.any_in_use());
  EXPECT_FALSE(f.board->posted(kRank));
}

}  // namespace
}  // namespace mh::steal
