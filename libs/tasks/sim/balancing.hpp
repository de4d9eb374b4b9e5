// SPDX-License-Identifier: BSD-3-Clause
// The balancers of balance.hpp on a simulated machine: who gets which task, and how long it takes
// to find that out.
//
// Modelled: a message's overhead at both ends, its latency, its bytes (a task's descriptor and its
// bin), each host doing one thing after the other, and the steps of the heaps. The sum of all loads
// that comes first is a reduction and a broadcast on a binary tree. The tasks themselves go from
// who had them straight to who gets them, beside the lists; that is not counted, as in the paper.
#pragma once

#include <span>

#include "tasks/balance.hpp"
#include "tasks/sim/machine.hpp"
#include "tasks/sim/workload.hpp"

namespace mh::tasks::sim {

struct Balanced {
  Seeds seeds;         // by rank
  double seconds = 0;  // until the last rank knows
  std::uint64_t moved = 0;
  double over_ideal = 0;  // of the longest load, with exact durations: 0.03 is 3 %
};

Balanced balance(Scheme scheme, const MachineModel& machine, const Balance& rules,
                 std::span<const float> durations, const Seeds& executed);

}  // namespace mh::tasks::sim
