// SPDX-License-Identifier: BSD-3-Clause
// The one way in which a request of the program completes: its message is fetched, its status is
// corrected, its error is raised.
//
// A started receive that the program does not look at is served, too: the wait loop fetches its
// message, because the sender may wait for that. Any thread.
#pragma once

#include "mpi/rndv/receive_requests.hpp"

namespace mh::mpi::rndv {

// A request has completed in the library with `code` and `status`, which is never ignored where
// receives.any(). `claim` is empty for a request that is not in the table. Returns the program's
// code; an error of a rendezvous message is raised for its communicator.
int complete(ReceiveClaim claim, int code, MPI_Status* status);

// As complete(), for a contiguous receive that is shorter than any rendezvous message, where errors
// are fatal and the status is not asked for: one look at the buffer tells whether a header came.
int complete_short(ReceiveClaim claim);

// The library's blocking call has received into `buffer`, which is in no table. `has_status`:
// `status` is the library's.
int complete_blocking(const ReceiveBuffer& buffer, const Envelope& envelope, MPI_Status* status,
                      bool has_status = true);

// A look at a completed request that leaves the request in place: its message is fetched now, and
// `status` is corrected.
void peek(MPI_Request handle, MPI_Status* status);

// Fetches what has landed for requests that the program does not look at now. Part of the wait
// loop's progress.
void fetch_landed_messages();
// Completes the receives whose requests the program has freed. Likewise.
void complete_orphans();

}  // namespace mh::mpi::rndv
