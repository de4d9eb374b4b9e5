// SPDX-License-Identifier: BSD-3-Clause
// Compares LCI's matching table (which pairs sends and receives) with a simple model, and tests it
// with many threads that share few keys.
#include "lci/matching_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::lci {
namespace {

struct Thing : MatchNode {
  std::uint64_t key = 0;
  int number = 0;
  std::atomic<int> met{0};
};

TEST(MatchingTable, the_second_side_finds_the_first) {
  MatchingTable table(16, 16);
  Thing receive;
  Thing message;
  EXPECT_EQ(table.access(7, &receive, Side::receive).partner, nullptr);
  EXPECT_EQ(table.access(8, &message, Side::message).partner, nullptr) << "another key";
  EXPECT_EQ(table.access(7, &message, Side::message).partner, &receive);
  EXPECT_EQ(table.access(7, &message, Side::message).partner, nullptr) << "it was taken out";
}

TEST(MatchingTable, nodes_of_one_key_are_matched_in_their_order) {
  MatchingTable table(16, 16);
  std::vector<Thing> receives(5);
  for (Thing& receive : receives) {
    EXPECT_EQ(table.access(1, &receive, Side::receive).partner, nullptr);
  }
  Thing message;
  for (Thing& receive : receives) {
    EXPECT_EQ(table.access(1, &message, Side::message).partner, &receive);
  }
  EXPECT_EQ(table.access(1, &message, Side::message).partner, nullptr);
}

TEST(MatchingTable, a_bucket_grows_beyond_its_line_and_shrinks_again) {
  MatchingTable table(1, 1000);
  constexpr std::size_t kKeys = 300;
  std::vector<Thing> things(kKeys);
  for (std::size_t key = 0; key < kKeys; ++key) {
    ASSERT_FALSE(table.access(key, &things[key], Side::receive).full);
  }
  EXPECT_GE(table.lines_in_use() + table.buckets(), kKeys / 3);
  Thing message;
  for (std::size_t key = kKeys; key-- > 0;) {
    ASSERT_EQ(table.access(key, &message, Side::message).partner, &things[key]);
  }
  EXPECT_EQ(table.lines_in_use(), 0U);
}

TEST(MatchingTable, a_full_table_refuses_and_works_on) {
  MatchingTable table(1, 1);
  std::vector<Thing> things(64);
  std::uint64_t taken = 0;
  while (!table.access(taken, &things[taken], Side::receive).full) ++taken;
  EXPECT_GE(taken, 6U) << "at least one bucket is full, and the chained line";
  EXPECT_LE(taken, 3 * (table.buckets() + 1));
  Thing message;
  EXPECT_EQ(table.access(0, &message, Side::message).partner, &things[0]);
  EXPECT_FALSE(table.access(0, &things[0], Side::receive).full);
}

TEST(MatchingTable, removes_only_what_has_met_nobody) {
  MatchingTable table(16, 16);
  std::vector<Thing> receives(3);
  for (Thing& receive : receives) (void)table.access(5, &receive, Side::receive);
  EXPECT_TRUE(table.remove(5, &receives[1]));
  EXPECT_FALSE(table.remove(5, &receives[1]));
  EXPECT_TRUE(table.remove(5, &receives[2])) << "the last of several";
  Thing message;
  EXPECT_EQ(table.access(5, &message, Side::message).partner, &receives[0]);
  EXPECT_FALSE(table.remove(5, &receives[0]));
}

TEST(MatchingTable, takes_out_all_that_is_wanted_of_one_side) {
  MatchingTable table(4, 1000);
  std::vector<Thing> things(200);
  for (std::uint64_t i = 0; i < things.size(); ++i) {
    things[i].key = i / 2;  // two things of each key
    (void)table.access(i / 2, &things[i], i / 2 % 3 == 0 ? Side::message : Side::receive);
  }
  std::vector<MatchNode*> taken;
  table.take_all(
      Side::receive, [](std::uint64_t key) { return key % 2 == 0; },
      [&](MatchNode* node) { taken.push_back(node); });
  for (Thing& thing : things) {
    const bool wanted = thing.key % 3 != 0 && thing.key % 2 == 0;
    EXPECT_EQ(std::count(taken.begin(), taken.end(), &thing), wanted ? 1 : 0) << thing.key;
    EXPECT_EQ(table.remove(thing.key, &thing), !wanted) << thing.key;
  }
  EXPECT_EQ(table.lines_in_use(), 0U);
}

TEST(MatchingTable, many_chained_buckets_become_twice_as_many) {
  MatchingTable table(8, 1000);
  const std::size_t few = table.buckets();
  constexpr std::size_t kKeys = 900;
  std::vector<Thing> things(2 * kKeys);  // two things of each key
  for (std::size_t i = 0; i < things.size(); ++i) {
    ASSERT_EQ(table.access(i / 2, &things[i], Side::message).partner, nullptr);
  }
  EXPECT_GT(table.buckets(), 16 * few);
  EXPECT_LE(table.lines_in_use(), table.buckets()) << "few are chained now";
  Thing receive;
  for (std::size_t i = 0; i < things.size(); ++i) {
    ASSERT_EQ(table.access(i / 2, &receive, Side::receive).partner, &things[i]);
  }
  EXPECT_EQ(table.lines_in_use(), 0U);
}

TEST(MatchingTable, has_no_more_buckets_than_twice_its_spare_lines) {
  MatchingTable table(8, 40);
  std::vector<Thing> things(300);
  std::size_t taken = 0;
  while (!table.access(taken, &things[taken], Side::receive).full) ++taken;
  EXPECT_EQ(table.buckets(), 64U);
  Thing message;
  for (std::size_t key = 0; key < taken; ++key) {
    ASSERT_EQ(table.access(key, &message, Side::message).partner, &things[key]);
  }
}

// A model of the matching table: for each key a queue of waiting sends or of waiting receives.
class Model {
 public:
  MatchNode* access(std::uint64_t key, Thing* thing, Side side) {
    Waiting& waiting = keys_[key];
    if (waiting.things.empty() || waiting.side == side) {
      waiting.side = side;
      waiting.things.push_back(thing);
      return nullptr;
    }
    Thing* first = waiting.things.front();
    waiting.things.pop_front();
    return first;
  }
  bool remove(std::uint64_t key, Thing* thing) { return std::erase(keys_[key].things, thing) != 0; }

 private:
  struct Waiting {
    Side side;
    std::deque<Thing*> things;
  };
  std::map<std::uint64_t, Waiting> keys_;
};

TEST(MatchingTable, behaves_as_a_map_of_queues) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    MatchingTable table(1 + seed % 7, 100'000);
    Model model;
    const std::uint64_t keys = 1 + random() % 60;
    std::deque<Thing> things;
    for (int step = 0; step < 5000; ++step) {
      const std::uint64_t key = random() % keys << (seed % 2 == 0 ? 0U : 32U);
      if (random() % 8 == 0 && !things.empty()) {
        Thing& thing = things[random() % things.size()];
        ASSERT_EQ(table.remove(thing.key, &thing), model.remove(thing.key, &thing));
        continue;
      }
      const Side side = random() % 2 == 0 ? Side::receive : Side::message;
      Thing& thing = things.emplace_back();
      thing.key = key;
      MatchNode* expected = model.access(key, &thing, side);
      ASSERT_EQ(table.access(key, &thing, side).partner, expected) << "seed " << seed;
    }
  }
}

// Every receive matches exactly one send. The threads share 97 keys in a small table.
TEST(MatchingTable, threads_match_everything_exactly_once) {
  constexpr int kThreads = 4;
  const int rounds = test::kSanitized ? 3'000 : 60'000;
  MatchingTable table(8, 1 << 20);
  std::vector<std::vector<Thing>> things;
  for (int i = 0; i < kThreads; ++i) things.emplace_back(static_cast<std::size_t>(rounds));
  std::atomic<int> meetings{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Side side = i % 2 == 0 ? Side::receive : Side::message;
      for (int j = 0; j < rounds; ++j) {
        Thing& own = things[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        own.number = j;
        MatchNode* met = table.access(static_cast<std::uint64_t>(j % 97), &own, side).partner;
        if (met == nullptr) continue;
        ++own.met;
        ++static_cast<Thing*>(met)->met;
        ++meetings;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(meetings, kThreads / 2 * rounds);
  for (const auto& own : things) {
    for (const Thing& thing : own) EXPECT_EQ(thing.met, 1);
  }
  EXPECT_EQ(table.lines_in_use(), 0U);
}

}  // namespace
}  // namespace mh::lci
