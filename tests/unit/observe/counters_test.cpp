// SPDX-License-Identifier: BSD-3-Clause
#include "observe/counters.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <thread>

namespace mh::observe {
namespace {

TEST(RankCounters, zeroed_memory_is_a_set_of_counters_at_zero) {
  alignas(RankCounters) std::byte memory[sizeof(RankCounters)] = {};
  const auto& counters = *std::launder(reinterpret_cast<const RankCounters*>(memory));
  EXPECT_EQ(counters.messages_by_rendezvous.get(), 0U);
  EXPECT_EQ(counters.collectives_with_arrival_barrier.get(), 0U);
}

TEST(RankCounters, a_reader_sees_a_writer_grow_and_never_shrink) {
  Counter count;
  constexpr std::uint64_t kLast = 200'000;
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < kLast; ++i) count.add(1);
  });
  for (std::uint64_t before = 0; before < kLast;) {
    const std::uint64_t now = count.get();
    ASSERT_GE(now, before);
    before = now;
    std::this_thread::yield();
  }
  writer.join();
  EXPECT_EQ(count.get(), kLast);
}

TEST(HelpedRow, takes_whole_lines) {
  EXPECT_EQ(helped_row_bytes(1), 64U);
  EXPECT_EQ(helped_row_bytes(8), 64U);
  EXPECT_EQ(helped_row_bytes(9), 128U);
}

}  // namespace
}  // namespace mh::observe
