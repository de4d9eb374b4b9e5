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
  EXPECT_EQ(first->state.load(), Site::State::unseen);
}

TEST(Sites, what_was_met_decides) {
  const auto sites = std::make_unique<Sites>();
  decide(*sites->find(body(1)), Obstacle::none);
  decide(*sites->find(body(2)), Obstacle::barrier);
  EXPECT_EQ(sites->find(body(1))->state.load(), Site::State::shared);
  EXPECT_EQ(sites->find(body(2))->state.load(), Site::State::excluded);
  EXPECT_EQ(sites->find(body(2))->obstacle.load(), Obstacle::barrier);
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
