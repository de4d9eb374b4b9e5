// SPDX-License-Identifier: BSD-3-Clause
#include "wait/pace.hpp"

#include <gtest/gtest.h>

namespace mh::wait {
namespace {

constexpr std::uint64_t kLimit = 100;

// Makes calls of a rank at intervals of `apart` ticks, for the recognition of tight loops of calls.
class Calls {
 public:
  bool make(std::uint32_t count, std::uint64_t apart) {
    bool tight = false;
    for (std::uint32_t i = 0; i < count; ++i) {
      now_ += apart;
      tight = pace_.tight(
          [this] {
            ++readings;
            return now_;
          },
          [] { return kLimit; });
    }
    return tight;
  }
  int readings = 0;

 private:
  Pace pace_;
  std::uint64_t now_ = 1'000'000;
};

constexpr std::uint32_t kEnough = Pace::kStride * (Pace::kStrides + 1);

TEST(Pace, is_not_tight_at_first) {
  Calls calls;
  EXPECT_FALSE(calls.make(1, 1));
  EXPECT_FALSE(calls.make(Pace::kStride, 1));
}

TEST(Pace, becomes_tight_after_some_quick_strides) {
  Calls calls;
  EXPECT_TRUE(calls.make(kEnough, kLimit - 1));
}

TEST(Pace, never_becomes_tight_when_calls_come_at_the_limit) {
  Calls calls;
  EXPECT_FALSE(calls.make(20 * kEnough, kLimit));
}

TEST(Pace, one_long_wait_ends_it_within_a_stride) {
  Calls calls;
  ASSERT_TRUE(calls.make(kEnough, 1));
  calls.make(1, Pace::kStride * kLimit);
  EXPECT_FALSE(calls.make(Pace::kStride, 1));
  EXPECT_FALSE(calls.make(Pace::kStride * (Pace::kStrides - 2), 1));
  EXPECT_TRUE(calls.make(Pace::kStride, 1));
}

TEST(Pace, grants_the_calls_until_the_next_look) {
  Pace pace;
  std::uint64_t now = 1'000'000;
  int polls = 0;
  const auto call = [&] {
    return pace.tight(
        [&] {
          ++polls;
          return ++now;
        },
        [] { return kLimit; });
  };
  EXPECT_EQ(pace.grant(), 0U);
  while (!call()) EXPECT_EQ(pace.grant(), 0U);
  polls = 0;
  EXPECT_EQ(pace.grant(), Pace::kStride - 1);
  EXPECT_EQ(pace.grant(), 0U);
  EXPECT_TRUE(call());
  EXPECT_EQ(polls, 1);
  const std::uint32_t granted = pace.grant();
  pace.give_back(granted - 5);
  for (std::uint32_t i = 5; i < granted; ++i) EXPECT_TRUE(call());
  EXPECT_EQ(polls, 1);
  EXPECT_TRUE(call());
  EXPECT_EQ(polls, 2);
}

TEST(Pace, calls_known_to_be_tight_count_like_those_that_asked) {
  Pace pace;
  std::uint64_t now = 1'000'000;
  const auto ask = [&] { return pace.tight([&] { return ++now; }, [] { return kLimit; }); };
  EXPECT_FALSE(pace.known_tight());
  while (!ask()) EXPECT_FALSE(pace.known_tight());
  std::uint32_t known = 0;
  while (pace.known_tight()) ++known;
  EXPECT_EQ(known, Pace::kStride - 1);
  now += Pace::kStride * kLimit;
  EXPECT_FALSE(ask());
  EXPECT_FALSE(pace.known_tight());
}

TEST(Pace, reads_the_clock_once_a_stride) {
  Calls calls;
  calls.make(100 * Pace::kStride, 1);
  EXPECT_EQ(calls.readings, 100);
}

}  // namespace
}  // namespace mh::wait
