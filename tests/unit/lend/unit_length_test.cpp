// SPDX-License-Identifier: BSD-3-Clause
#include "lend/unit_length.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace mh::lend {
namespace {

constexpr UnitLength::UnitRules kRules{.least = 100, .first = 200, .most = 800, .look_cost = 3};

// Returns the cost of lending, as a share of the time, if messages for the lender come at random,
// on average every `between` ticks. The cost is the lender's looks between units of `length` ticks,
// and its late answers to messages.
double cost_of(std::uint64_t length, double between) {
  const auto unit = static_cast<double>(length);
  return static_cast<double>(kRules.look_cost) / unit + unit / 2 / between;
}

// Returns the mean cost of lending with the unit lengths that UnitLength learns from messages that
// come at random, on average every `between` ticks.
double cost_learned(double between, std::uint32_t seed) {
  std::mt19937_64 dice(seed);
  std::exponential_distribution<double> next(1 / between);
  UnitLength units(kRules);
  double comes_in = next(dice);
  double cost = 0;
  constexpr int kUnits = 20'000;
  for (int i = 0; i < kUnits; ++i) {
    const std::uint64_t away = units.length();
    comes_in -= static_cast<double>(away);
    if (comes_in > 0) {
      units.nothing_came(away);
    } else {
      units.came_late(away);
      comes_in = next(dice);
    }
    cost += cost_of(away, between);
  }
  return cost / kUnits;
}

double least_cost(double between) {
  double best = cost_of(kRules.least, between);
  for (std::uint64_t length = kRules.least; length <= kRules.most; ++length) {
    best = std::min(best, cost_of(length, between));
  }
  return best;
}

TEST(UnitLength, begins_as_told) {
  EXPECT_NEAR(static_cast<double>(UnitLength(kRules).length()), 200, 1);
}

TEST(UnitLength, grows_to_the_most_while_nothing_comes_and_no_further) {
  UnitLength units(kRules);
  std::uint64_t last = units.length();
  for (int i = 0; i < 1'000; ++i) {
    units.nothing_came(last);
    EXPECT_GE(units.length(), last);
    last = units.length();
  }
  EXPECT_EQ(last, kRules.most);
}

TEST(UnitLength, falls_to_the_least_where_every_unit_is_too_long) {
  UnitLength units(kRules);
  for (int i = 0; i < 1'000; ++i) units.nothing_came(units.length());
  for (int i = 0; i < 40; ++i) units.came_late(units.length());
  EXPECT_EQ(units.length(), kRules.least);
  // The length grows again after many units during which no message came.
  for (int i = 0; i < 1'000; ++i) units.nothing_came(units.length());
  EXPECT_EQ(units.length(), kRules.most);
}

TEST(UnitLength, costs_little_more_than_the_best_fixed_length) {
  for (const double between : {300.0, 1e3, 1e4, 1e5, 1e6}) {
    for (std::uint32_t seed = 1; seed <= 5; ++seed) {
      EXPECT_LT(cost_learned(between, seed), 1.25 * least_cost(between)) << between << ' ' << seed;
    }
  }
}

TEST(UnitLength, takes_any_time_of_lending) {
  UnitLength units(kRules);
  for (const std::uint64_t away : {std::uint64_t{0}, std::uint64_t{1} << 62U, std::uint64_t{1}}) {
    units.nothing_came(away);
    EXPECT_LE(units.length(), kRules.most);
    units.came_late(away);
    EXPECT_GE(units.length(), kRules.least);
  }
}

}  // namespace
}  // namespace mh::lend
