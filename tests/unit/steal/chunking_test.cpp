// SPDX-License-Identifier: BSD-3-Clause
#include "steal/chunking.hpp"

#include <gtest/gtest.h>

#include "base/cacheline.hpp"

namespace mh::steal {
namespace {

TEST(Chunking, picks_the_last_rule_that_a_message_reaches) {
  const Chunking chunking({{0, 16U << 10U}, {96U << 10U, 32U << 10U}, {1U << 20U, 128U << 10U}});
  EXPECT_EQ(chunking.chunk_for(1), 16U << 10U);
  EXPECT_EQ(chunking.chunk_for((96U << 10U) - 1), 16U << 10U);
  EXPECT_EQ(chunking.chunk_for(96U << 10U), 32U << 10U);
  EXPECT_EQ(chunking.chunk_for((1U << 20U) - 1), 32U << 10U);
  EXPECT_EQ(chunking.chunk_for(1ULL << 40U), 128U << 10U);
}

TEST(Chunking, keeps_a_unit_of_work_bounded_and_worth_a_system_call) {
  const Chunking chunking({{0, 1}, {100, UINT32_MAX}, {200, 10'000}});
  EXPECT_EQ(chunking.chunk_for(0), kMinChunk);
  EXPECT_EQ(chunking.chunk_for(100), kMaxChunk);
  EXPECT_EQ(chunking.chunk_for(200) % kCacheLine, 0U);
}

TEST(Chunking, the_shipped_table_gives_sender_and_receiver_of_every_large_message_a_chunk) {
  const LoadedSettings standard = load_settings({}, "", "");
  const Chunking chunking(standard.settings.chunks);
  for (std::uint64_t bytes = standard.settings.threshold; bytes < 1ULL << 33U; bytes *= 2) {
    EXPECT_GE(bytes / chunking.chunk_for(bytes), 2U) << bytes;
  }
}

TEST(Chunking, a_guided_job_has_short_chunks_but_never_longer_ones_than_asked_for) {
  EXPECT_EQ(guided_chunk(256U << 10U), 64U << 10U);
  EXPECT_EQ(guided_chunk(128U << 10U), 32U << 10U);
  EXPECT_EQ(guided_chunk(64U << 10U), 32U << 10U);
  EXPECT_EQ(guided_chunk(16U << 10U), 16U << 10U);
}

TEST(Order, copies_last_what_is_touched_first) {
  EXPECT_EQ(order_for(AccessOrder::low_to_high), CopyOrder::high_to_low);
  EXPECT_EQ(order_for(AccessOrder::high_to_low), CopyOrder::low_to_high);
  EXPECT_EQ(order_for(AccessOrder::random), CopyOrder::both_ends);
}

}  // namespace
}  // namespace mh::steal
