// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/posted_receives.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::p2p {
namespace {

class PostedReceivesTest : public testing::Test {
 protected:
  PostedReceivesTest() { posted_receives_.attach(table_.get()); }
  std::unique_ptr<PostedReceiveTable> table_ = std::make_unique<PostedReceiveTable>();
  PostedReceives posted_receives_;
  char buffer_[256] = {};
};

TEST_F(PostedReceivesTest, an_open_receive_shows_where_and_how_much) {
  const PostedReceive* posted = posted_receives_.open(buffer_, sizeof buffer_);
  ASSERT_NE(posted, nullptr);
  EXPECT_EQ(posted->state.load(), PostedState::open);
  EXPECT_EQ(posted->address.load(), reinterpret_cast<std::uint64_t>(buffer_));
  EXPECT_EQ(posted->capacity.load(), sizeof buffer_);
}

TEST_F(PostedReceivesTest, the_extent_covers_every_receive_that_was_ever_open) {
  EXPECT_EQ(table_->extent.load(), 0U);
  PostedReceive* first = posted_receives_.open(buffer_, 1);
  PostedReceive* second = posted_receives_.open(buffer_, 1);
  EXPECT_EQ(table_->extent.load(), 2U);
  posted_receives_.close(first);
  posted_receives_.close(second);
  EXPECT_EQ(table_->extent.load(), 2U);
}

// Two threads post a receive each, one at index 0 of the table and the other at index 1. Then the
// extent (the highest index so far, plus one) is 2, whichever thread stores it last.
TEST_F(PostedReceivesTest, the_extent_covers_receives_that_two_threads_open_at_a_time) {
  constexpr int kTrials = test::kSanitized ? 5000 : 200000;  // some meet in the wrong order
  std::atomic<int> arrived{0};
  const auto meet = [&](int meeting) {
    arrived.fetch_add(1);
    while (arrived.load() < 2 * meeting) std::this_thread::yield();
  };
  int short_extents = 0;
  const auto open_each_time = [&](bool checks) {
    for (int trial = 0; trial < kTrials; ++trial) {
      meet(2 * trial + 1);
      PostedReceive* posted = posted_receives_.open(buffer_, 1);
      meet(2 * trial + 2);
      if (checks && table_->extent.exchange(0) != 2) ++short_extents;
      posted_receives_.close(posted);
    }
  };
  std::thread other(open_each_time, false);
  open_each_time(true);
  other.join();
  EXPECT_EQ(short_extents, 0);
}

TEST_F(PostedReceivesTest, a_posted_receive_is_of_a_buffer_only_while_it_is_open_for_it) {
  const auto here = reinterpret_cast<std::uint64_t>(buffer_);
  PostedReceive* posted = posted_receives_.open(buffer_, 1);
  EXPECT_TRUE(posted->is_of(here));
  EXPECT_FALSE(posted->is_of(here + 1));
  posted->state.store(PostedState::pushing);
  EXPECT_FALSE(posted->is_of(here));
  posted_receives_.close(posted);
  EXPECT_FALSE(posted->is_of(here));
  EXPECT_EQ(posted_receives_.open(buffer_ + 1, 1),
            posted);  // a delayed sender may find this later use of the entry
  EXPECT_FALSE(posted->is_of(here));
}

TEST_F(PostedReceivesTest, a_full_table_refuses_and_takes_again_after_a_close) {
  std::vector<PostedReceive*> open;
  while (PostedReceive* posted = posted_receives_.open(buffer_, 1)) open.push_back(posted);
  EXPECT_EQ(open.size(), kPostedReceives);
  EXPECT_EQ(std::set<PostedReceive*>(open.begin(), open.end()).size(), kPostedReceives);
  posted_receives_.close(open[70]);
  EXPECT_EQ(open[70]->state.load(), PostedState::free);
  EXPECT_EQ(posted_receives_.open(buffer_, 2), open[70]);
}

TEST_F(PostedReceivesTest, threads_never_share_a_posted_receive) {
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (std::uint64_t me = 1; me <= 4; ++me) {
    threads.emplace_back([&, me] {
      for (int round = 0; round < 3000; ++round) {
        PostedReceive* posted = posted_receives_.open(buffer_, me);
        if (posted == nullptr) continue;
        if (posted->capacity.load() != me) clashes.fetch_add(1);
        posted_receives_.close(posted);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes.load(), 0);
}

}  // namespace
}  // namespace mh::p2p
