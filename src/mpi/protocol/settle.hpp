// SPDX-License-Identifier: BSD-3-Clause
// What becomes of a receive that has completed: its message is fetched, put in its place, and
// accounted for. Also of one that the program does not look at: its sender may wait for that.
//
// Any thread.
#pragma once

#include "mpi/protocol/pending_requests.hpp"

namespace mh::mpi {

// ---- Bounce buffers (overlaps.hpp)

// Around what fetches the message of a completed receive: it may go straight to its place, if no
// descriptor can still land in a head there.
void begin_fetch(const ReceiveTarget& target);
void end_fetch(const ReceiveTarget& target);
// The message, as `status` has it, comes to its place, if it is not there.
void put_in_place(const ReceiveTarget& target, const MPI_Status& status);

// ---- Requests

// A request has completed with `status` (never MPI_STATUS_IGNORE while pending requests.any()):
// does what its entry asks for, if it has one. `request` is the handle before the library cleared
// it. Returns the error, not yet raised.
int settle_request(MPI_Request request, const PendingReceivePtr& entry, MPI_Status* status);

// A request has failed with `status`: its entry is of no use any more. True if it was under way
// with one.
bool drop_request(MPI_Request request, const PendingReceivePtr& entry, MPI_Status* status);

// A look at a completed request that leaves it in place: a described message is fetched now, and
// `status` is corrected.
void peek(MPI_Request request, MPI_Status* status);

// Fetches what has landed for requests that the program does not look at now: their senders may
// wait. Part of the wait loop.
void settle_landed();

// Receives whose requests the program freed; part of the wait loop's progress.
void progress_orphans();

}  // namespace mh::mpi
