// SPDX-License-Identifier: BSD-3-Clause
#include "heap/block_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace mh::heap {
namespace {

TEST(BlockCache, a_new_one_has_no_block) {
  BlockCache cache;
  for (Page pages = 1; pages <= BlockCache::kMostPages; ++pages) {
    EXPECT_EQ(cache.take(pages), kNoPage);
  }
  EXPECT_EQ(cache.take_any(), kNoPage);
}

TEST(BlockCache, a_block_is_taken_once) {
  BlockCache cache;
  EXPECT_EQ(cache.put(0, 5), kNoPage);
  EXPECT_EQ(cache.take(5), 0U);
  EXPECT_EQ(cache.take(5), kNoPage);
}

TEST(BlockCache, a_second_block_of_a_length_displaces_the_first) {
  BlockCache cache;
  EXPECT_EQ(cache.put(10, 5), kNoPage);
  EXPECT_EQ(cache.put(20, 5), 10U);
  EXPECT_EQ(cache.put(30, 6), kNoPage);
  EXPECT_EQ(cache.take(5), 20U);
  EXPECT_EQ(cache.take(6), 30U);
}

TEST(BlockCache, take_any_finds_all_blocks) {
  BlockCache cache;
  for (Page pages = 5; pages < 10; ++pages) ASSERT_EQ(cache.put(pages * 100, pages), kNoPage);
  std::vector<Page> found;
  for (Page first = cache.take_any(); first != kNoPage; first = cache.take_any()) {
    found.push_back(first);
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<Page>{500, 600, 700, 800, 900}));
}

// More threads than the cache of blocks has rows pass blocks to each other by the cache. Each block
// has one owner at a time.
TEST(BlockCache, no_block_is_lost_or_doubled_between_threads) {
  constexpr Page kThreads = 20;
  constexpr Page kBlocks = 4;
  BlockCache cache;
  std::vector<std::vector<Page>> owned(kThreads);
  std::vector<std::thread> threads;
  for (Page me = 0; me < kThreads; ++me) {
    threads.emplace_back([&cache, &mine = owned[me], me] {
      for (Page i = 0; i < kBlocks; ++i) mine.push_back(me * kBlocks + i);
      for (Page turn = 0; turn < 2000; ++turn) {
        const Page pages = turn % 3 + 5;
        if (turn % 2 == 0 && !mine.empty()) {
          const Page displaced = cache.put(mine.back(), pages);
          mine.pop_back();
          if (displaced != kNoPage) mine.push_back(displaced);
        } else if (const Page taken = cache.take(pages); taken != kNoPage) {
          mine.push_back(taken);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Page> all;
  for (const std::vector<Page>& mine : owned) all.insert(all.end(), mine.begin(), mine.end());
  for (Page first = cache.take_any(); first != kNoPage; first = cache.take_any()) {
    all.push_back(first);
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), std::size_t{kThreads} * kBlocks);
  for (Page i = 0; i < kThreads * kBlocks; ++i) EXPECT_EQ(all[i], i);
}

}  // namespace
}  // namespace mh::heap
