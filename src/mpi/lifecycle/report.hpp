// SPDX-License-Identifier: BSD-3-Clause
// The summary at the end: gathers every rank's counters at rank 0 of MPI_COMM_WORLD.
#pragma once

#include <string>

namespace mh::mpi {

// Collective over MPI_COMM_WORLD, at the begin of MPI_Finalize. Rank 0's MH_SUMMARY and
// MH_SUMMARY_JSON decide for all. `why_not`: what kept this rank's node from helping, empty if
// nothing did.
void report(const std::string& why_not);

}  // namespace mh::mpi
