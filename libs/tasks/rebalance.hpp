// SPDX-License-Identifier: BSD-3-Clause
// The balancers of balance.hpp among the ranks of a job. Reports with the tasks that ranks give
// away go up a tree of ranks, and lists of tasks go down again: a pass.
//
// In the end each rank has its tasks of the best distribution of all passes (balance_pass.hpp).
//
// Threads: the rank's own thread. Collective.
#pragma once

#include <cstdint>

#include "manyhands/tasks/network.hpp"
#include "tasks/bytes.hpp"

namespace mh::tasks {

// Moves tasks between the ranks by the balancer `scheme`. `own`, numbers of tasks in `arena`: the
// tasks that this rank ran, and after the call the tasks that it is to run. Returns the number of
// tasks that the rank gave away in all passes. Failures are those of the network.
Result<std::uint64_t> rebalance(Network& network, Scheme scheme, const Balance& rules, Arena& arena,
                                ArenaTasks& own);

}  // namespace mh::tasks
