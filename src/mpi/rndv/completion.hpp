// SPDX-License-Identifier: BSD-3-Clause
// The completion of receive requests: fetches the rendezvous message, corrects the status, raises
// the error. Every call that completes a request uses these functions.
//
// The wait loop also fetches the messages of started receives that the program neither tests nor
// waits for, because their senders may wait for the FIN. Any thread.
#pragma once

#include "mpi/rndv/receive_requests.hpp"

namespace mh::mpi::rndv {

// Completes for the program a request that the MPI library has completed with `code` and `status`.
// `status` is not MPI_STATUS_IGNORE while a receive is in the table of receive requests and started
// (receives.any()). `claim`: this thread's right to complete the request (receive_requests.hpp);
// empty for a request that is not in the table. Returns the code for the program. An error of a
// rendezvous message is raised on the communicator of its receive.
int complete(ReceiveClaim claim, int code, MPI_Status* status);

// Completes for the program a receive that a blocking call of the MPI library has carried out into
// `buffer`, with `status`. Returns the code for the program. Such a receive has no entry in the
// table of receive requests.
int complete_blocking(const ReceiveBuffer& buffer, const MessageEnvelope& envelope,
                      MPI_Status* status);

// Called by MPI_Request_get_status for a complete request: fetches its message and corrects
// `status`. The request is not ended: the program completes it later.
void correct_status(MPI_Request handle, MPI_Status* status);

// Fetches messages whose RTS headers have arrived for started receives. A step of the wait loop.
void fetch_landed_messages();
// Completes the receives whose requests the program has freed, once their messages have come. A
// step of the wait loop.
void complete_orphans();

}  // namespace mh::mpi::rndv
