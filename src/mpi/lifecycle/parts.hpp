// SPDX-License-Identifier: BSD-3-Clause
// What bootstrap.cpp has its neighbours do, beside node_setup.hpp. Called by it alone.
#pragma once

#include <string>

#include "wait/wait.hpp"

namespace mh::mpi {

// What a rank does while it waits: the wait loop's view of this process (progress.cpp), which needs
// its services. The order of work is that of wait.hpp; each step is one line of services. One
// thread of the rank at a time is in a step, except where wait.hpp says otherwise.
wait::WaitActions& node_work();

// The summary at the end (report.cpp): gathers every rank's counters at rank 0 of MPI_COMM_WORLD.
// Collective, at the begin of MPI_Finalize. Rank 0's MH_SUMMARY and MH_SUMMARY_JSON decide for all.
// `why_not`: what kept this rank's node from helping, empty if nothing did.
void report(const std::string& why_not);

// Which cores a rank lends and borrows (cores.cpp).
namespace cores {

// This rank's waits lend its core, and others lend theirs to its messages on pipelines and its
// loops.
void share();
// Takes back all that share() made.
void take_back();

// How waits of this rank behave on this machine.
wait::WaitRules rules();

}  // namespace cores
}  // namespace mh::mpi
