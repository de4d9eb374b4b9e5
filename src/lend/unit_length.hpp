// SPDX-License-Identifier: BSD-3-Clause
// Computes how long a lender lends its core before it checks for its own message again.
//
// The end of a unit, at which the lender looks for its message, costs the helper two hand-overs of
// the core. A message that comes while the core is away is answered late, by half a unit on
// average. If a message comes once in a time t of lending, and such a check costs `look_cost`, the
// sum of both costs is least for units of sqrt(2 t look_cost). A lender therefore counts how often
// its wait was over at the end of a whole unit. Such ends are rare if ranks wait for the rank whose
// loop they help, since the unit then ends with the loop. They are frequent if messages come from
// other ranks. Pure arithmetic on ticks. One object per lender; not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mh::lend {

class UnitLength {
 public:
  // In ticks: the least and the greatest length of a unit, the length of the first unit, and the
  // cost of each end of a unit, at which the lender looks for its own message.
  struct UnitRules {
    std::uint64_t least;
    std::uint64_t first;
    std::uint64_t most;
    std::uint64_t look_cost;
  };
  explicit UnitLength(const UnitRules& rules)
      : rules_(rules), between_(rules.first * rules.first / (2 * rules.look_cost)) {}

  // The length of the next unit in ticks, computed from the mean time of lending between two
  // messages for the lender, or from the time since the last message if that is longer.
  [[nodiscard]] std::uint64_t length() const {
    const auto quiet = static_cast<double>(std::max(between_, since_));
    const double best = std::sqrt(2 * quiet * static_cast<double>(rules_.look_cost));
    return std::clamp(static_cast<std::uint64_t>(best), rules_.least, rules_.most);
  }

  // Records that no message came for the lender while its core was lent for `away` ticks.
  void nothing_came(std::uint64_t away) { since_ += away; }
  // Records that a message for the lender came while its core was lent for `away` ticks. The new
  // time between two messages counts a quarter in the mean.
  void came_late(std::uint64_t away) {
    between_ = between_ - between_ / 4 + (since_ + away) / 4;
    since_ = 0;
  }

 private:
  UnitRules rules_;
  std::uint64_t between_;    // mean ticks of lending between two messages
  std::uint64_t since_ = 0;  // ticks of lending since the last message
};

}  // namespace mh::lend
