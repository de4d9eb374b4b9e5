// SPDX-License-Identifier: BSD-3-Clause
// The parts of the start and the end of a process, apart from those in node_setup.hpp. Called by
// bootstrap.cpp only.
#pragma once

#include <string>

#include "wait/wait.hpp"

namespace mh::mpi {

// The actions of a waiting rank, which the wait loop calls (NodeWork in progress.cpp; wait.hpp has
// their order). One thread of the rank runs them at a time, except where wait.hpp says otherwise.
wait::WaitActions& node_work();

// The summary at the end (report.cpp): gathers the counters of all ranks at rank 0 of
// MPI_COMM_WORLD. Collective, at the beginning of MPI_Finalize. Rank 0's MH_SUMMARY and
// MH_SUMMARY_JSON decide for all. `why_not`: the reason why ranks of this node could not help;
// empty if they could.
void write_report(const std::string& why_not);

// Called once: from then on light tasks of this process park while they wait in MPI, that is, their
// workers run other tasks (light_tasks.cpp).
void park_light_tasks();

// The cores that a rank lends and borrows (cores.cpp).
namespace cores {

// Lends this rank's core during waits, and lets other ranks lend cores to this rank's pipelines and
// loops.
void share_cores();
// Undoes share_cores() at the end of the process: destroys the workers, the lender and the helpers.
void take_back_cores();

// Returns the rules for waits of this rank, such as whether it yields, for this machine and its
// number of ranks.
wait::WaitRules rules();

}  // namespace cores
}  // namespace mh::mpi
