// SPDX-License-Identifier: BSD-3-Clause
// When may a waiting rank take up work? Learned from how long its waits usually last.
//
// A wait that is usually over within microseconds must not be spent on a neighbour's copy: the rank
// would be late for its own message by up to a unit. So each wait first spins for a while, about
// twice as long as recent waits that ended on their own, and only then helps. Pure arithmetic on
// ticks; one instance a thread; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mh::wait {

class Idleness {
 public:
  // Bounds of the spin in ticks. With least == most the spin is fixed.
  Idleness(std::uint64_t least, std::uint64_t most)
      : least_(least), most_(most), usual_(least / 2) {}

  // How long the wait that starts now spins before it takes its first unit.
  [[nodiscard]] std::uint64_t spin() const { return std::clamp(2 * usual_, least_, most_); }

  // The wait ended by itself after `length` ticks, before any unit was taken.
  void ended_alone(std::uint64_t length) { learn(length); }

  // A unit was taken. Then the wait was a long one and the next may start sooner: the estimate
  // decays, so one phase of short waits does not keep a rank from helping for ever.
  void helped() { learn(0); }

 private:
  void learn(std::uint64_t length) {
    const std::uint64_t bounded = std::min(length, most_);
    usual_ = usual_ - usual_ / 4 + bounded / 4;  // an exponential mean over about four waits
  }

  std::uint64_t least_;
  std::uint64_t most_;
  std::uint64_t usual_;
};

}  // namespace mh::wait
