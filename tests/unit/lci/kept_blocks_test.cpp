// SPDX-License-Identifier: BSD-3-Clause
// Tests of the blocks that a queue keeps for later messages.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "manyhands/lci/queue.hpp"

namespace {

using mh::lci::detail::KeptBlocks;
using mh::lci::detail::MessageBlock;

MessageBlock* made(std::size_t capacity) {
  return new (std::malloc(sizeof(MessageBlock) + capacity)) MessageBlock{capacity, capacity};
}

TEST(KeptBlocks, a_kept_block_serves_sizes_down_to_its_half) {
  KeptBlocks kept;
  MessageBlock* const block = made(8192);
  ASSERT_TRUE(kept.keep(block));
  EXPECT_EQ(kept.take(4096), block);
  ASSERT_TRUE(kept.keep(block));
  EXPECT_EQ(kept.take(8192), block);
  EXPECT_EQ(kept.take(8192), nullptr);
  std::free(block);
}

TEST(KeptBlocks, a_block_that_does_not_fit_is_not_taken_and_soon_freed) {
  for (const std::size_t size : {std::size_t{4095}, std::size_t{8193}}) {
    KeptBlocks kept;
    ASSERT_TRUE(kept.keep(made(8192)));
    EXPECT_EQ(kept.take(size), nullptr);
    EXPECT_EQ(kept.take(8192), nullptr) << "the miss has not freed the block";
  }
}

TEST(KeptBlocks, a_miss_frees_the_oldest_block_only) {
  KeptBlocks kept;
  ASSERT_TRUE(kept.keep(made(1000)));
  MessageBlock* const newer = made(3000);
  ASSERT_TRUE(kept.keep(newer));
  EXPECT_EQ(kept.take(100'000), nullptr);
  EXPECT_EQ(kept.take(3000), newer);
  EXPECT_EQ(kept.take(1000), nullptr);
  std::free(newer);
}

TEST(KeptBlocks, the_newest_block_is_taken_first) {
  KeptBlocks kept;
  MessageBlock* const older = made(1000);
  MessageBlock* const newer = made(1000);
  ASSERT_TRUE(kept.keep(older) && kept.keep(newer));
  EXPECT_EQ(kept.take(1000), newer);
  EXPECT_EQ(kept.take(1000), older);
  std::free(newer);
  std::free(older);
}

TEST(KeptBlocks, at_most_64_blocks_and_4_megabytes_are_kept) {
  const auto kept_of = [](std::size_t capacity) {
    KeptBlocks kept;
    std::size_t count = 0;
    for (; count < 1000; ++count) {
      MessageBlock* const block = made(capacity);
      if (kept.keep(block)) continue;
      std::free(block);
      break;
    }
    return count;
  };
  EXPECT_EQ(kept_of(1000), 64U);
  EXPECT_EQ(kept_of(std::size_t{1} << 20U), 4U);
  EXPECT_EQ(kept_of(std::size_t{5} << 20U), 0U);
}

TEST(KeptBlocks, threads_never_get_the_same_block) {
  KeptBlocks kept;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&kept, thread] {
      for (int i = 0; i < 20'000; ++i) {
        MessageBlock* block = kept.take(512);
        if (block == nullptr) block = made(512);
        int* const owner = reinterpret_cast<int*>(block + 1);
        *owner = thread;  // another owner at the same time is a data race, which TSan reports
        ASSERT_EQ(*owner, thread);
        if (!kept.keep(block)) std::free(block);
      }
    });
  }
}

}  // namespace
