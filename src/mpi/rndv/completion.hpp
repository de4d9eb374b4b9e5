// SPDX-License-Identifier: BSD-3-Clause
// The completion of requests: fetches the rendezvous message, corrects the status, raises the
// error. Every call that completes a request uses these functions.
//
// The wait loop also fetches the messages of started receives that the program neither tests nor
// waits for, because their senders may wait for the FIN. Any thread.
#pragma once

#include "mpi/rndv/receive_requests.hpp"

namespace mh::mpi::rndv {

// Completes a request that the library has completed with `code` and `status`. `status` is not
// MPI_STATUS_IGNORE while receives.any(). `claim` is empty for a request that is not in the table
// of receive requests. Returns the code for the program. An error of a rendezvous message is raised
// on the communicator of its receive.
int complete(ReceiveClaim claim, int code, MPI_Status* status);

// Completes a receive that a blocking call of the library has carried out into `buffer`, with
// `status`. Such a receive has no entry in the table of receive requests.
int complete_blocking(const ReceiveBuffer& buffer, const MessageEnvelope& envelope,
                      MPI_Status* status);

// MPI_Request_get_status of a complete request: fetches the message and corrects `status`. The
// request stays.
void correct_status(MPI_Request handle, MPI_Status* status);

// Fetches messages whose RTS headers have arrived for started receives. Part of the wait loop.
void fetch_landed_messages();
// Completes the receives whose requests the program has freed. Part of the wait loop.
void complete_orphans();

}  // namespace mh::mpi::rndv
