// SPDX-License-Identifier: BSD-3-Clause
// Persistent sends that may go by rendezvous, or by internode pipeline.
//
// The MPI library first makes a persistent request of its own, the *plain* request, and checks the
// arguments. The program then gets a persistent receive of the FIN in place of the plain request.
// Each start posts the message anew. A start that cannot go by rendezvous (no free slot, helping
// switched off, the communicator freed) starts the plain request. Once the plain request is
// complete, this rank sends itself the FIN.
//
// A FIN's tag is used again only when no FIN with that tag is under way. If the program frees the
// request of an active send, the send is therefore kept until its FIN has come. Any thread.
#pragma once

#include <optional>

#include "mpi/compat/outgoing_message.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::rndv {

// The library has made `*request` for this message. If the message may go by rendezvous, or by
// internode pipeline, `*request` becomes the receive of the FIN.
void make_persistent_send(const OutgoingMessage& message, MPI_Datatype type, MPI_Request* request);

// MPI_Start of a request that make_persistent_send() has made; empty for any other request.
std::optional<int> start_persistent_send(MPI_Request* request);
// MPI_Request_free of a request that make_persistent_send() has made; false for any other request.
bool free_persistent_send(MPI_Request request);
// MPI_Cancel of a start that start_persistent_send() has left to the plain request. False for any
// other request.
bool cancel_library_start(MPI_Request request);

// MPI_Cancel of a rendezvous send whose slot is free again: waits until the FIN has completed the
// program's request, so that there is nothing to cancel. Does nothing for other requests.
void await_fin_of(MPI_Request request);

// Sends the FINs of plain requests that are complete, and disposes of freed sends whose FIN has
// come. A step of the wait loop.
void progress_persistent_sends();
// Frees the plain requests. Called before config.node_comm is freed.
void stop_persistent_sends();

}  // namespace mh::mpi::rndv
