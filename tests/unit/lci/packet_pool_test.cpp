// SPDX-License-Identifier: BSD-3-Clause
// The pool of packets, with a lane (a stack of free packets) for each thread: no packet has two
// holders, no packet is lost, and a lane is a stack for its owner.
#include "lci/packet_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::lci {
namespace {

struct Thing {
  std::atomic<int> holders{0};
};

TEST(PacketPool, gives_back_last_what_was_taken_last) {
  std::vector<Thing> things(3);
  PacketPool<Thing> pool(things.size(), 2);
  EXPECT_EQ(pool.take(), nullptr);
  for (Thing& thing : things) pool.give(&thing);
  EXPECT_EQ(pool.count(), 3U);
  Thing* last = pool.take();
  EXPECT_EQ(last, &things[2]);
  pool.give(last);
  EXPECT_EQ(pool.take(), last) << "the one that is still in the cache";
}

TEST(PacketPool, an_empty_lane_steals_the_coldest_half) {
  std::vector<Thing> things(8);
  PacketPool<Thing> pool(things.size(), 2);
  for (Thing& thing : things) pool.give(&thing);
  std::set<Thing*> stolen;
  std::thread([&] {
    (void)this_lane();
    for (int i = 0; i < 4; ++i) stolen.insert(pool.take());
  }).join();
  // There are two lanes. If the other thread has the same lane as the first, it takes the packets
  // that were given last (the hot ones); this check does not depend on that.
  EXPECT_EQ(stolen.size(), 4U);
  EXPECT_EQ(pool.count(), 4U);
}

TEST(PacketPool, all_can_be_given_by_one_thread_and_taken_by_another) {
  std::vector<Thing> things(100);
  PacketPool<Thing> pool(things.size(), 4);
  for (int round = 0; round < 3; ++round) {
    for (Thing& thing : things) pool.give(&thing);
    std::thread([&] {
      std::set<Thing*> taken;
      while (Thing* thing = pool.take()) taken.insert(thing);
      EXPECT_EQ(taken.size(), things.size());
    }).join();
    EXPECT_EQ(pool.count(), 0U);
  }
}

TEST(PacketPool, threads_never_hold_the_same) {
  constexpr int kThreads = 4;
  const int rounds = test::kSanitized ? 10'000 : 200'000;
  std::vector<Thing> things(64);
  PacketPool<Thing> pool(things.size(), 4);
  for (Thing& thing : things) pool.give(&thing);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < kThreads; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<Thing*> held;
      for (int i = 0; i < rounds; ++i) {
        if (random() % 2 == 0 || held.size() > 24) {
          if (held.empty()) continue;
          ASSERT_EQ(held.back()->holders.exchange(0, std::memory_order_relaxed), 1);
          pool.give(held.back());
          held.pop_back();
        } else if (Thing* thing = pool.take()) {
          ASSERT_EQ(thing->holders.exchange(1, std::memory_order_relaxed), 0);
          held.push_back(thing);
        }
      }
      for (Thing* thing : held) {
        thing->holders = 0;
        pool.give(thing);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.count(), things.size());
  std::set<Thing*> all;
  while (Thing* thing = pool.take()) all.insert(thing);
  EXPECT_EQ(all.size(), things.size());
}

}  // namespace
}  // namespace mh::lci
