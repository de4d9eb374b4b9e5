// SPDX-License-Identifier: BSD-3-Clause
// The balancers on a simulated machine: the ranks of balance_pass.hpp over a queue of events, and
// the time until all ranks know their tasks.
//
// The model has a message's overhead at both ends, its latency and its bytes (for each task the
// task itself and its bin). Each rank does one thing after the other, and each step of a
// priority queue or sort takes time. The reductions before each pass go up and down a binary tree.
// Threads: one.
#pragma once

#include <span>
#include <vector>

#include "tasks/balance.hpp"
#include "tasks/sim/machine.hpp"
#include "tasks/sim/workload.hpp"

namespace mh::tasks::sim {

struct Balanced {
  Seeds seeds = {};         // by rank
  double seconds = 0;       // until the last rank knows its tasks
  std::uint64_t moved = 0;  // tasks that ranks gave away, in all passes
  int passes = 0;
  double over_ideal = 0;  // excess of the longest load over the average: 0.03 is 3 %
};

// Redistributes `own`, the tasks of each rank with their durations, and leaves Balanced::seeds
// empty. Loads are sums of bins (rounded durations).
Balanced balance(Scheme scheme, const MachineModel& machine, const Balance& rules,
                 std::vector<std::vector<Timed<TaskId>>>& own);
// Balances by `durations`, the exact duration of each task in seconds. `executed`: the tasks that
// each rank ran. Balanced::seeds has the tasks that each rank gets, and Balanced::over_ideal is
// exact.
Balanced balance(Scheme scheme, const MachineModel& machine, const Balance& rules,
                 std::span<const float> durations, const Seeds& executed);

}  // namespace mh::tasks::sim
