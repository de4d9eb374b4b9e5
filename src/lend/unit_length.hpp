// SPDX-License-Identifier: BSD-3-Clause
// For how long does a lender give its core away before it looks at its own message again?
//
// Each look costs the helper that works there two hand-overs; each message that comes while the
// core is away is answered late, by half a unit in the mean. Where a message comes in time t of
// lending, both cost least in sum with units of sqrt(2 t look). So a lender counts how often a wait
// was over when a whole unit was: seldom where ranks wait for one whose loop they help with, as
// such a unit ends with the loop; often where messages come from elsewhere. Pure arithmetic on
// ticks; one instance a lender; not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mh::lend {

class UnitLength {
 public:
  // In ticks: bounds of a unit, the first one, and what a look costs.
  struct Rules {
    std::uint64_t least;
    std::uint64_t first;
    std::uint64_t most;
    std::uint64_t look;
  };
  explicit UnitLength(const Rules& rules)
      : rules_(rules), between_(rules.first * rules.first / (2 * rules.look)) {}

  // The next unit.
  [[nodiscard]] std::uint64_t length() const {
    const auto quiet = static_cast<double>(std::max(between_, since_));
    const double best = std::sqrt(2 * quiet * static_cast<double>(rules_.look));
    return std::clamp(static_cast<std::uint64_t>(best), rules_.least, rules_.most);
  }

  // The core was away for so long, and nothing had come.
  void nothing_came(std::uint64_t away) { since_ += away; }
  // ... and something had. A mean over about four times.
  void came_late(std::uint64_t away) {
    between_ = between_ - between_ / 4 + (since_ + away) / 4;
    since_ = 0;
  }

 private:
  Rules rules_;
  std::uint64_t between_;    // ticks of lending between two messages, as a rule
  std::uint64_t since_ = 0;  // the last one
};

}  // namespace mh::lend
