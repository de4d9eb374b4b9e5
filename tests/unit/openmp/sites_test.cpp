// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/sites.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace mh::openmp {
namespace {

const void* body(std::size_t number) { return reinterpret_cast<const void*>(0x1000 + number * 16); }

TEST(Sites, a_body_has_one_site) {
  const auto sites = std::make_unique<Sites>();
  Site* first = sites->find(body(1));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(sites->find(body(1)), first);
  EXPECT_NE(sites->find(body(2)), first);
  EXPECT_EQ(first->state.load(), SiteState::unseen);
}

TEST(Sites, what_was_met_decides) {
  const auto sites = std::make_unique<Sites>();
  decide_site(*sites->find(body(1)), Obstacle::none);
  decide_site(*sites->find(body(2)), Obstacle::barrier);
  EXPECT_EQ(sites->find(body(1))->state.load(), SiteState::shared);
  EXPECT_EQ(sites->find(body(2))->state.load(), SiteState::excluded);
  EXPECT_EQ(sites->find(body(2))->obstacle.load(), Obstacle::barrier);
}

TEST(Sites, code_that_is_gone_is_forgotten_and_no_other) {
  const auto sites = std::make_unique<Sites>();
  for (const std::size_t number : {1U, 2U, 3U}) {
    Site& site = *sites->find(body(number));
    decide_site(site, number == 1 ? Obstacle::barrier : Obstacle::none);
    site.looked_up = true;
    Stopwatch::took(site, 1);
  }
  sites->forget(reinterpret_cast<std::uintptr_t>(body(1)),
                reinterpret_cast<std::uintptr_t>(body(3)));
  for (const std::size_t number : {1U, 2U}) {
    const Site& gone = *sites->find(body(number));
    EXPECT_EQ(gone.state.load(), SiteState::unseen);
    EXPECT_FALSE(gone.looked_up.load());
    EXPECT_EQ(obstacle_of(gone), Obstacle::none);
  }
  EXPECT_EQ(sites->find(body(3))->state.load(), SiteState::shared);
  EXPECT_TRUE(sites->find(body(3))->looked_up.load());
}

TEST(Sites, a_long_region_is_timed_each_time) {
  Site site;
  const std::uint64_t time = 2 * ticks_from_ns(tuning::kShortRegionNs);
  Stopwatch::took(site, time);
  Stopwatch::took(site, time);
  EXPECT_EQ(site.spent.load(), 2 * time);
  { const Stopwatch stopwatch(&site); }
  EXPECT_GT(site.spent.load(), 2 * time);
}

TEST(Sites, one_execution_of_a_short_region_stands_for_several) {
  Site site;
  const std::uint64_t time = ticks_from_ns(tuning::kShortRegionNs) / 2;
  Stopwatch::took(site, time);
  EXPECT_EQ(site.spent.load(), time * Stopwatch::kEvery);
  for (std::uint32_t i = 1; i < Stopwatch::kEvery; ++i) const Stopwatch untimed(&site);
  EXPECT_EQ(site.spent.load(), time * Stopwatch::kEvery);
  { const Stopwatch stopwatch(&site); }
  EXPECT_GT(site.spent.load(), time * Stopwatch::kEvery);
}

TEST(Sites, without_a_site_nothing_is_timed) { const Stopwatch stopwatch(nullptr); }

TEST(Sites, a_region_that_was_only_timed_has_no_loop_to_share) {
  Site site;
  EXPECT_EQ(obstacle_of(site), Obstacle::none);
  Stopwatch::took(site, 1);
  EXPECT_EQ(obstacle_of(site), Obstacle::no_loop);
  decide_site(site, Obstacle::by_user);
  EXPECT_EQ(obstacle_of(site), Obstacle::by_user);
  decide_site(site, Obstacle::none);
  EXPECT_EQ(obstacle_of(site), Obstacle::none);
}

TEST(Sites, a_full_table_says_so_and_keeps_what_it_has) {
  const auto sites = std::make_unique<Sites>();
  for (std::size_t i = 0; i < Sites::kMost; ++i) ASSERT_NE(sites->find(body(i)), nullptr);
  EXPECT_EQ(sites->find(body(Sites::kMost)), nullptr);
  EXPECT_NE(sites->find(body(7)), nullptr);
  std::size_t count = 0;
  sites->each([&](const Site&) { ++count; });
  EXPECT_EQ(count, Sites::kMost);
}

TEST(Sites, threads_that_meet_a_body_together_find_the_same_site) {
  constexpr std::size_t kBodies = 500;
  const auto sites = std::make_unique<Sites>();
  std::vector<std::vector<Site*>> found(4, std::vector<Site*>(kBodies));
  {
    std::vector<std::jthread> threads;
    for (auto& mine : found) {
      threads.emplace_back([&] {
        for (std::size_t i = 0; i < kBodies; ++i) mine[i] = sites->find(body(i));
      });
    }
  }
  for (const auto& mine : found) EXPECT_EQ(mine, found[0]);
}

}  // namespace
}  // namespace mh::openmp
