// SPDX-License-Identifier: BSD-3-Clause
#include "steal/slots.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace mh::steal {
namespace {

constexpr std::uint32_t kRank = 70;  // the board has this rank's bit in its second word

struct Fixture {
  std::unique_ptr<JobSlots> slots = std::make_unique<JobSlots>();
  std::unique_ptr<node::WorkBoard> board = std::make_unique<node::WorkBoard>();
  SlotKeeper keeper{*slots, *board, kRank};
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

TEST(Slots, a_slot_with_a_chunk_in_dead_hands_is_hidden_and_used_again) {
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
