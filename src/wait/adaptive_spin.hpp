// SPDX-License-Identifier: BSD-3-Clause
// The time a waiting rank spins before it helps others, learned from its recent waits.
//
// A wait that usually ends within microseconds must not be spent on another rank's copy: the rank
// would be late for its own message by up to the time of a chunk. Each wait therefore first spins
// about twice as long as recent waits that ended before any help. Threads: pure arithmetic on
// ticks; an instance per thread, not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mh::wait {

class AdaptiveSpin {
 public:
  // `least`, `most`: bounds of the spin that precedes help, in ticks. Equal bounds fix its length.
  AdaptiveSpin(std::uint64_t least, std::uint64_t most)
      : least_(least), most_(most), usual_(least / 2) {}

  // The ticks for which a wait that starts now spins before the rank helps others.
  [[nodiscard]] std::uint64_t length() const { return std::clamp(2 * usual_, least_, most_); }

  // Records that a wait ended after `length` ticks, before the rank helped anyone.
  void ended_alone(std::uint64_t length) { learn(length); }

  // Records that the rank helped in a wait. That wait was long, so the next wait spins less. Since
  // the mean of recent waits decays, a phase of short waits does not delay help for good.
  void helped() { learn(0); }

 private:
  void learn(std::uint64_t length) {
    const std::uint64_t bounded = std::min(length, most_);
    usual_ = usual_ - usual_ / 4 + bounded / 4;  // an exponential mean over about four waits
  }

  std::uint64_t least_;
  std::uint64_t most_;
  std::uint64_t usual_;  // the mean, in ticks
};

}  // namespace mh::wait
