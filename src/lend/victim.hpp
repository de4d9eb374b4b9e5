// SPDX-License-Identifier: BSD-3-Clause
// Selects the rank that a lender helps (MPI Workshare, victim selection).
//
// A lender reads the offers of work of all ranks of the node and takes the offer with the highest
// value. The value depends on the policy (MH_VICTIM), on the offer, and under the policy `random`
// on a random number. Not thread-safe.
#pragma once

#include <cstdint>

#include "base/settings.hpp"

namespace mh::lend {

using mh::VictimPolicy;

class CoreVictimPicker {
 public:
  // `seed`: lenders with different seeds get different random numbers, so under the policy `random`
  // they do not all choose the same rank.
  CoreVictimPicker(VictimPolicy policy, std::uint64_t seed)
      : policy_(policy), dice_(0x9e3779b97f4a7c15ULL * (seed + 1)) {}

  // The value of an offer of work, above 0; the higher, the better. `left`: how long the offered
  // work goes on, in any unit of time. `near`: the offering rank is on the lender's NUMA node.
  // `helpers()`: returns how many helpers of that rank are at work; called only if needed, since it
  // reads every channel.
  template <class Helpers>
  std::uint64_t value(std::uint64_t left, bool near, Helpers&& helpers) {
    constexpr std::uint64_t kNear = 1ULL << 62U;
    constexpr std::uint64_t kMany = 1ULL << 32U;
    switch (policy_) {
      case VictimPolicy::most_work:
        return left;
      case VictimPolicy::fewest_lenders:
        return kMany - helpers();
      case VictimPolicy::nearest:
        return left + (near ? kNear : 0);
      case VictimPolicy::random:
        dice_ ^= dice_ << 13U;
        dice_ ^= dice_ >> 7U;
        dice_ ^= dice_ << 17U;
        return dice_ | 1U;
    }
    return 0;
  }

 private:
  VictimPolicy policy_;
  std::uint64_t dice_;
};

}  // namespace mh::lend
