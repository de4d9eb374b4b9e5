// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/ways.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace mh::p2p {
namespace {

constexpr std::uint64_t kBytes = 64U << 10U;
constexpr std::uint64_t kOtherBytes = 8U << 20U;

// Messages that take so many ticks by each way.
class WaysTest : public testing::Test {
 protected:
  std::uint64_t cells_ = 100'000;
  std::uint64_t kernel_ = 200'000;
  Ways ways_;
  Way last_ = Way::cells;

  Way send(std::uint64_t bytes = kBytes) {
    const Way way = ways_.next(bytes);
    ways_.took(way, bytes, way == Way::cells ? cells_ : kernel_);
    return way;
  }
  // How many of the next messages go by the kernel.
  std::uint32_t by_kernel(std::uint32_t messages, std::uint64_t bytes = kBytes) {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < messages; ++i) count += send(bytes) == Way::kernel ? 1 : 0;
    return count;
  }
  void warm_up() { EXPECT_EQ(by_kernel(Ways::kWarmUp / kBytes), 0U); }
};

TEST_F(WaysTest, cells_are_warmed_up_before_anything_is_measured) {
  cells_ = 1'000'000;
  warm_up();
  cells_ = 100'000;
  EXPECT_EQ(send(), Way::cells);
  EXPECT_EQ(send(), Way::kernel) << "tried as soon as there is something to compare with";
  EXPECT_EQ(send(), Way::kernel) << "the first after a change does not count";
  EXPECT_EQ(send(), Way::cells);
}

TEST_F(WaysTest, the_first_message_after_a_change_does_not_count) {
  warm_up();
  by_kernel(8);
  for (std::uint32_t i = 0; i < 8 * Ways::kOften; ++i) {
    const Way way = ways_.next(kBytes);
    const bool changed = way != last_;
    last_ = way;
    ways_.took(way, kBytes, changed ? 1 : way == Way::cells ? cells_ : kernel_);
  }
  EXPECT_LE(by_kernel(Ways::kOften), Ways::kTrial);
}

TEST_F(WaysTest, ways_that_take_about_the_same_do_not_take_turns) {
  warm_up();
  std::mt19937 random(7);
  std::uniform_int_distribution<std::uint64_t> noise(85'000, 115'000);
  std::uint32_t changes = 0;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    cells_ = noise(random);
    kernel_ = noise(random);
    const Way way = send();
    changes += way != last_ ? 1 : 0;
    last_ = way;
  }
  EXPECT_LE(changes, 60U) << "only by trials";
}

TEST_F(WaysTest, a_refused_way_is_avoided) {
  warm_up();
  std::uint32_t refused = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const Way way = ways_.next(kBytes);
    if (way == Way::kernel) {
      ways_.refused(kBytes);
      ++refused;
    } else {
      ways_.took(way, kBytes, cells_);
    }
  }
  EXPECT_LE(refused, 1 + 7 * Ways::kTrial) << "only by trials";
}

TEST_F(WaysTest, the_faster_way_is_taken_and_the_other_tried_ever_more_rarely) {
  warm_up();
  by_kernel(8);
  const std::uint32_t at_first = by_kernel(16 * Ways::kOften);
  EXPECT_GE(at_first, 2 * Ways::kTrial);
  EXPECT_LE(at_first, 5 * Ways::kTrial);
  by_kernel(16 * Ways::kRarely);
  EXPECT_LE(by_kernel(8 * Ways::kRarely), 8 * Ways::kTrial);
}

TEST_F(WaysTest, a_way_that_has_become_slow_is_left_at_once) {
  warm_up();
  by_kernel(100);
  cells_ = 500'000;
  EXPECT_GE(by_kernel(10), 7U);
  EXPECT_GE(by_kernel(Ways::kOften), Ways::kOften - Ways::kTrial);
}

TEST_F(WaysTest, a_way_that_has_become_fast_is_found_by_a_trial) {
  warm_up();
  cells_ = 500'000;
  by_kernel(2 * Ways::kOften);
  cells_ = 100'000;
  by_kernel(4 * Ways::kOften + 2 * Ways::kTrial);
  EXPECT_LE(by_kernel(Ways::kOften), Ways::kTrial);
}

TEST_F(WaysTest, one_late_message_does_not_cost_its_way_for_long) {
  warm_up();
  by_kernel(10);
  cells_ = 1'000'000'000;
  send();
  cells_ = 100'000;
  by_kernel(Ways::kOften + Ways::kTrial + 1);
  EXPECT_LE(by_kernel(Ways::kOften), Ways::kTrial);
}

TEST_F(WaysTest, each_size_has_its_own_way) {
  warm_up();
  by_kernel(10);
  cells_ = 3'000'000;
  by_kernel(10, kOtherBytes);
  cells_ = 100'000;
  EXPECT_EQ(send(), Way::cells);
  EXPECT_EQ(send(kOtherBytes), Way::kernel);
  // No message is too short or too long to be told.
  for (const std::uint64_t bytes : {std::uint64_t{1}, ~std::uint64_t{0}}) send(bytes);
}

}  // namespace
}  // namespace mh::p2p
