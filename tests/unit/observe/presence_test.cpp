// SPDX-License-Identifier: BSD-3-Clause
#include "observe/presence.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace mh::observe {
namespace {

TEST(Presence, counts_the_ticks_of_visits_that_are_over) {
  Presence rank;
  EXPECT_FALSE(rank.is_inside());
  EXPECT_EQ(rank.ticks_inside(50), 0U);
  rank.enter(100);
  rank.leave(130);
  rank.enter(200);
  rank.leave(205);
  EXPECT_FALSE(rank.is_inside());
  EXPECT_EQ(rank.ticks_inside(1000), 35U);
}

TEST(Presence, counts_the_visit_under_way) {
  Presence rank;
  rank.enter(100);
  EXPECT_TRUE(rank.is_inside());
  EXPECT_EQ(rank.ticks_inside(140), 40U);
  rank.leave(150);
  EXPECT_EQ(rank.ticks_inside(170), 50U);
}

TEST(Presence, does_not_count_backwards_if_clocks_of_cores_differ) {
  Presence rank;
  rank.enter(100);
  EXPECT_EQ(rank.ticks_inside(90), 0U);
  rank.leave(95);
  EXPECT_EQ(rank.ticks_inside(200), 0U);
}

TEST(Presence, is_inside_while_any_thread_is) {
  Presence rank;
  rank.enter(100);
  rank.enter(110);
  rank.leave(120);
  EXPECT_TRUE(rank.is_inside());
  rank.leave(140);
  EXPECT_FALSE(rank.is_inside());
  EXPECT_EQ(rank.ticks_inside(500), 40U);
}

// A thread visits the library, each time for one tick, while another reads the sum. The sum must
// never exceed the number of visits that have begun.
TEST(Presence, a_reader_never_counts_a_visit_twice) {
  Presence rank;
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> begun{0};
  std::thread reader([&] {
    std::uint64_t last = 0;
    while (!ends.load(std::memory_order_relaxed)) {
      const std::uint64_t seen = rank.ticks_inside(~std::uint64_t{0} >> 1U);
      // While a visit is under way, the sum is far too large and is skipped: the times of visits
      // are small numbers, and the reader's `now` is huge.
      if (rank.is_inside() || seen > 1U << 30U) continue;
      EXPECT_GE(seen, last);
      EXPECT_LE(seen, begun.load(std::memory_order_acquire));
      last = seen;
    }
  });
  for (std::uint64_t visit = 1; visit <= 200'000; ++visit) {
    begun.store(visit, std::memory_order_release);
    rank.enter(2 * visit);
    rank.leave(2 * visit + 1);
  }
  ends.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_EQ(rank.ticks_inside(0), 200'000U);
}

}  // namespace
}  // namespace mh::observe
