// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/landing.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace mh::p2p {
namespace {

class LandingsTest : public testing::Test {
 protected:
  LandingsTest() { landings_.attach(board_.get()); }
  std::unique_ptr<LandingBoard> board_ = std::make_unique<LandingBoard>();
  Landings landings_;
  char buffer_[256] = {};
};

TEST_F(LandingsTest, an_open_landing_shows_where_and_how_much) {
  const Landing* landing = landings_.open(buffer_, sizeof buffer_);
  ASSERT_NE(landing, nullptr);
  EXPECT_EQ(landing->state.load(), LandingState::open);
  EXPECT_EQ(landing->address.load(), reinterpret_cast<std::uint64_t>(buffer_));
  EXPECT_EQ(landing->capacity.load(), sizeof buffer_);
}

TEST_F(LandingsTest, the_extent_covers_every_landing_that_was_ever_open) {
  EXPECT_EQ(board_->extent.load(), 0U);
  Landing* first = landings_.open(buffer_, 1);
  Landing* second = landings_.open(buffer_, 1);
  EXPECT_EQ(board_->extent.load(), 2U);
  landings_.close(first);
  landings_.close(second);
  EXPECT_EQ(board_->extent.load(), 2U);
}

TEST_F(LandingsTest, a_full_board_refuses_and_takes_again_after_a_close) {
  std::vector<Landing*> open;
  while (Landing* landing = landings_.open(buffer_, 1)) open.push_back(landing);
  EXPECT_EQ(open.size(), kLandings);
  EXPECT_EQ(std::set<Landing*>(open.begin(), open.end()).size(), kLandings);
  landings_.close(open[70]);
  EXPECT_EQ(open[70]->state.load(), LandingState::free);
  EXPECT_EQ(landings_.open(buffer_, 2), open[70]);
}

TEST_F(LandingsTest, threads_never_share_a_landing) {
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (std::uint64_t me = 1; me <= 4; ++me) {
    threads.emplace_back([&, me] {
      for (int round = 0; round < 3000; ++round) {
        Landing* landing = landings_.open(buffer_, me);
        if (landing == nullptr) continue;
        if (landing->capacity.load() != me) clashes.fetch_add(1);
        landings_.close(landing);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes.load(), 0);
}

}  // namespace
}  // namespace mh::p2p
