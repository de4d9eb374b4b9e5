// SPDX-License-Identifier: BSD-3-Clause
// Persistent sends that may go by rendezvous, or by internode pipeline.
//
// The library makes each request first, and looks at the arguments. The program then gets a
// persistent receive of the FIN in its place. Each start posts the message anew. A start that
// cannot go by rendezvous (no free slot, helping switched off, the communicator freed) starts the
// library's own request, and this rank sends the FIN to itself when that is done.
//
// The tag of a FIN is used again only when no FIN with it is under way: a send that is freed while
// active is kept until then. Any thread.
#pragma once

#include <optional>

#include "mpi/compat/outgoing_message.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::rndv {

// The library has made `*request` for this message. If the message may go by rendezvous, or by
// internode pipeline, `*request` becomes the receive of the FIN.
void make_persistent_send(const OutgoingMessage& message, MPI_Datatype type, MPI_Request* request);

// MPI_Start of a request that make_persistent_send() has replaced; empty for any other request.
std::optional<int> start_persistent_send(MPI_Request* request);
// MPI_Request_free. False for any other request.
bool free_persistent_send(MPI_Request request);
// MPI_Cancel of a send that was started as the library's. False for any other request.
bool cancel_library_start(MPI_Request request);

// MPI_Cancel of a send whose slot is over: waits until the request is complete, so that there is
// nothing to cancel. Does nothing for a request of anything else.
void await_fin_of(MPI_Request request);

// Starts of the library's own requests, and freed sends, come to their end. Part of the wait loop.
void progress_persistent_sends();
// Before the node's communicator is freed.
void stop_persistent_sends();

}  // namespace mh::mpi::rndv
