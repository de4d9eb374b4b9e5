// SPDX-License-Identifier: BSD-3-Clause
// Start and end of Manyhands in a process.
#pragma once

namespace mh::mpi {

// After the library's MPI_Init* succeeded: collective over MPI_COMM_WORLD.
void start();
// Before the library's MPI_Finalize: collective over MPI_COMM_WORLD.
void stop();

}  // namespace mh::mpi
