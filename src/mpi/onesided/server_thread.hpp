// SPDX-License-Identifier: BSD-3-Clause
// The thread of a rank that serves those of other nodes while the rank computes, or is in a call
// that is the library's alone.
//
// A rank that waits in the wait loop serves itself; the thread sees that by the time of the last
// turn, and sleeps on. Its naps grow while nothing comes (tuning.hpp), and become short when
// something does. It has no signals of the program. Needs MPI_THREAD_MULTIPLE.
#pragma once

namespace mh::mpi::rma::server_thread {

// False if there is no thread to be had.
bool start();
void stop();

}  // namespace mh::mpi::rma::server_thread
