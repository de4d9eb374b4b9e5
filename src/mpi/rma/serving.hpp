// SPDX-License-Identifier: BSD-3-Clause
// What a rank does for those of other nodes: carries out their operations in its own memory, keeps
// its lock for them, and puts into place what they answer.
//
// One thread at a time serves, the *server*: whoever waits in the wait loop or polls, or a thread
// of its own, while the rank computes or is in a call that is the library's alone. Requests of one
// rank are carried out in the order in which it made them, one at a time; a large one is a job of
// this rank, of which a turn does one chunk. Nothing here waits.
#pragma once

namespace mh::mpi::rma {

// One turn. True if there was something to do. Costs a load where there are no windows over several
// nodes.
bool serve_other_nodes();

// The thread sees by the time of the last turn that somebody else serves, and sleeps on. Its naps
// grow while nothing comes (tuning.hpp), and become short when something does. It has no signals of
// the program. Needs MPI_THREAD_MULTIPLE. False if there is no thread to be had.
bool start_server_thread();
void stop_server_thread();

}  // namespace mh::mpi::rma
