// SPDX-License-Identifier: BSD-3-Clause
#include "base/slot_set.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace mh {
namespace {

using Slots = SlotSet<70>;

TEST(SlotSet, hands_out_each_slot_once_the_lowest_first) {
  Slots slots;
  EXPECT_FALSE(slots.any());
  for (std::uint32_t i = 0; i < 70; ++i) EXPECT_EQ(slots.take(), i);
  EXPECT_EQ(slots.take(), Slots::kNone);
  slots.give_back(66);
  slots.give_back(3);
  EXPECT_EQ(slots.take(), 3U);
  EXPECT_EQ(slots.take(), 66U);
}

TEST(SlotSet, takes_no_more_than_wanted) {
  Slots slots;
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(slots.take(4), i);
  EXPECT_EQ(slots.take(4), Slots::kNone);
  EXPECT_EQ(slots.take(66), 4U);
}

TEST(SlotSet, finds_the_first_in_use_that_is_wanted) {
  Slots slots;
  slots.add(5);
  slots.add(69);
  EXPECT_TRUE(slots.any());
  EXPECT_EQ(slots.find([](std::uint32_t) { return true; }), 5U);
  EXPECT_EQ(slots.find([](std::uint32_t slot) { return slot > 5; }), 69U);
  slots.give_back(69);
  EXPECT_EQ(slots.find([](std::uint32_t slot) { return slot > 5; }), Slots::kNone);
}

TEST(SlotSet, threads_never_share_a_slot) {
  SlotSet<3> slots;
  // Each slot's number of users is not atomic, so ThreadSanitizer reports it if two threads have a
  // slot at the same time.
  std::vector<int> users(3, 0);
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 3000; ++round) {
        const std::uint32_t slot = slots.take();
        if (slot == SlotSet<3>::kNone) continue;
        if (++users[slot] != 1) clashes.fetch_add(1);
        --users[slot];
        slots.give_back(slot);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes.load(), 0);
}

}  // namespace
}  // namespace mh
