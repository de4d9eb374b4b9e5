// SPDX-License-Identifier: BSD-3-Clause
// Tests the shares of threads in loops with static schedules: every iteration belongs to one
// thread, and `last` marks the thread with the last iteration. tests/openmp/test_static.py compares
// these shares with those of LLVM's run time.
#include "openmp/static_share.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>

namespace mh::openmp {
namespace {

template <class Index, class Step>
Index sum(Index at, Step step) {
  return static_cast<Index>(at + static_cast<Index>(step));
}

// Deals a loop to `size` threads, and counts how many threads get each index. The end of a thread's
// share is clipped to the loop's end, as compiled code does it.
template <class Index>
std::map<Index, int> dealt(std::int32_t schedule, const StaticLoop<Index>& loop, std::uint32_t size,
                           std::map<std::uint32_t, Index>* last = nullptr) {
  std::map<Index, int> times;
  for (std::uint32_t number = 0; number < size; ++number) {
    const auto share = static_share(schedule, loop, number, size);
    if (share.last && last != nullptr) last->emplace(number, loop.high);
    const bool up = loop.step > 0;
    const auto beyond = [&](Index at, Index end) { return up ? at > end : at < end; };
    Index low = share.low;
    Index high = share.high;
    while (!beyond(low, loop.high)) {
      const Index end = beyond(high, loop.high) ? loop.high : high;
      for (Index at = low; !beyond(at, end); at = sum(at, loop.step)) ++times[at];
      if (without_modifiers(schedule) != kStaticChunked) break;
      low = sum(low, share.stride);
      high = sum(high, share.stride);
    }
  }
  return times;
}

template <class Index>
void expect_once(std::int32_t schedule, const StaticLoop<Index>& loop, std::uint32_t size) {
  std::map<std::uint32_t, Index> last;
  const auto times = dealt(schedule, loop, size, &last);
  std::size_t count = 0;
  for (Index at = loop.low; loop.step > 0 ? at <= loop.high : at >= loop.high;
       at = sum(at, loop.step)) {
    ++count;
    EXPECT_EQ(times.count(at), 1U) << +at;
  }
  for (const auto& [at, dealt_times] : times) EXPECT_EQ(dealt_times, 1) << +at;
  EXPECT_EQ(times.size(), count);
  EXPECT_EQ(last.size(), 1U) << "schedule " << schedule << ", " << size << " threads";
}

TEST(StaticShare, each_iteration_is_dealt_once) {
  constexpr std::int32_t kNonMonotonic = 1 << 30;
  for (const std::int32_t schedule :
       {kStaticEven, kStaticChunked, kStaticChunked | kNonMonotonic}) {
    for (const std::uint32_t size : {2U, 3U, 8U, 64U}) {
      for (const int count : {1, 2, 7, 8, 9, 100}) {
        for (const int step : {1, -1, 3, -7}) {
          for (const int chunk : {1, 4, 1000}) {
            const StaticLoop<std::int32_t> loop{
                .low = 5, .high = 5 + (count - 1) * step, .step = step, .chunk = chunk};
            expect_once(schedule, loop, size);
          }
        }
      }
    }
  }
}

TEST(StaticShare, a_wide_loop_without_a_sign) {
  constexpr std::uint64_t kFrom = std::uint64_t{1} << 63U;
  const StaticLoop<std::uint64_t> up{.low = kFrom, .high = kFrom + 99, .step = 1, .chunk = 8};
  const StaticLoop<std::uint64_t> down{.low = kFrom + 99, .high = kFrom, .step = -1, .chunk = 8};
  for (const std::int32_t schedule : {kStaticEven, kStaticChunked, kStaticSimd})
    for (const auto& loop : {up, down}) expect_once(schedule, loop, 6);
}

TEST(StaticShare, an_empty_loop_stays_as_it_is) {
  const StaticLoop<std::int32_t> loop{.low = 3, .high = 2, .step = 1, .chunk = 1};
  const auto share = static_share(kStaticEven, loop, 0, 4);
  EXPECT_EQ(share.low, 3);
  EXPECT_EQ(share.high, 2);
  EXPECT_FALSE(share.last);
}

}  // namespace
}  // namespace mh::openmp
