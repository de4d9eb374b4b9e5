// SPDX-License-Identifier: BSD-3-Clause
// The balancers of balance.hpp among the ranks of a job: lists go up a tree and down again, and
// with them the tasks.
//
// The central balancer is the tree whose root is the parent of all ranks, and has no limit on the
// way up. A rank sends one message up and gets one down in each pass.
//
// Threads: the rank's own. Collective.
#pragma once

#include <cstdint>

#include "manyhands/tasks/network.hpp"
#include "tasks/bytes.hpp"

namespace mh::tasks {

// `own`: what this rank ran, and then what it is to run; in `arena`. Returns how many tasks it gave
// away.
Result<std::uint64_t> rebalance(Network& network, Scheme scheme, const Balance& rules, Arena& arena,
                                ArenaTasks& own);

}  // namespace mh::tasks
