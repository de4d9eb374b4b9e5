// SPDX-License-Identifier: BSD-3-Clause
// The target's side of operations from other nodes: carries out the operations in this rank's
// memory, grants the rank's lock, and stores the results of this rank's own requests.
//
// The *server* is the thread that handles messages from other nodes, one thread of the rank at a
// time: a thread in the wait loop or in a polling call. While the rank computes, or is in a call of
// the library alone, the rank's *server thread* is the server. Requests of one rank are carried out
// one at a time, in the order in which the rank made them. A large request is a job of this rank,
// of which the server does one chunk each time that it looks for messages (a turn). The server
// waits for no other rank.
#pragma once

namespace mh::mpi::rma {

// Handles messages from other nodes for one turn: some requests, at most about 20 us. Returns true
// if there was something to do. Costs a load if there are no windows over several nodes.
bool serve_other_nodes();

// Starts the RMA server thread, which blocks all signals. The thread keeps sleeping while the time
// of the last turn shows that another thread of the rank serves. Its naps grow while no message
// comes (tuning.hpp), and a message shortens them. Needs MPI_THREAD_MULTIPLE. Returns false if no
// thread can be made.
bool start_server_thread();
void stop_server_thread();

}  // namespace mh::mpi::rma
