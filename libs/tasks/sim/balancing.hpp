// SPDX-License-Identifier: BSD-3-Clause
// The balancers of balance.hpp on a simulated machine: the rank of each task, and the time until
// all ranks know it.
//
// The model has a message's overhead at both ends, its latency and its bytes (a task's descriptor
// and its bin). Each host does one thing after the other, and each step of a heap takes time. The
// sum of all loads at the start is a reduction and a broadcast on a binary tree. The tasks
// themselves go straight from their old to their new rank, beside the lists; as in the paper, that
// is not counted.
#pragma once

#include <span>

#include "tasks/balance.hpp"
#include "tasks/sim/machine.hpp"
#include "tasks/sim/workload.hpp"

namespace mh::tasks::sim {

struct Balanced {
  Seeds seeds;         // by rank
  double seconds = 0;  // until the last rank knows its tasks
  std::uint64_t moved = 0;
  double over_ideal = 0;  // excess of the longest load, with exact durations: 0.03 is 3 %
};

Balanced balance(Scheme scheme, const MachineModel& machine, const Balance& rules,
                 std::span<const float> durations, const Seeds& executed);

}  // namespace mh::tasks::sim
