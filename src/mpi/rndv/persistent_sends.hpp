// SPDX-License-Identifier: BSD-3-Clause
// Persistent sends that may go by rendezvous, or by internode pipeline.
//
// The MPI library first makes a persistent request of its own, the *plain* request, and checks the
// arguments. The program then gets a persistent receive of the FIN in place of the plain request.
// Each MPI_Start posts the message anew. If a start cannot go by rendezvous (no free slot, helping
// switched off, the communicator freed), Manyhands starts the plain request. Once the plain request
// is complete, this rank sends itself the FIN.
//
// A FIN's tag is used again only when no FIN with that tag is under way. If the program frees the
// request of an active send, its entry is therefore kept until its FIN has come. Any thread.
#pragma once

#include <optional>

#include "mpi/compat/outgoing_message.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::rndv {

// Called after the MPI library has made the persistent request `*request` for this message. If the
// message may go by rendezvous, or by internode pipeline, `*request` becomes the persistent receive
// of the FIN, which the program gets.
void make_persistent_send(const OutgoingMessage& message, MPI_Datatype type, MPI_Request* request);

// Carries out MPI_Start of a request that make_persistent_send() has made, and returns its code.
// For any other request it returns nothing, and the caller makes the MPI library's call.
std::optional<int> start_persistent_send(MPI_Request* request);
// Carries out MPI_Request_free of a request that make_persistent_send() has made. False for any
// other request, which the caller frees.
bool free_persistent_send(MPI_Request request);
// Carries out MPI_Cancel of a start that start_persistent_send() has left to the plain request, the
// MPI library's own. False for any other request, which is not cancelled.
bool cancel_library_start(MPI_Request request);

// Called by MPI_Cancel for a rendezvous send that is over, so that its slot is free again. Waits
// until the FIN has completed the program's request, so that there is nothing to cancel. Does
// nothing for other requests.
void await_fin_of(MPI_Request request);

// A step of the wait loop. Sends this rank itself the FINs of starts whose plain requests (the MPI
// library's own) are complete, and frees both requests of sends that the program has freed, once
// their FINs have come.
void progress_persistent_sends();
// Frees the plain requests, the MPI library's own, of all persistent sends. Called before
// config.node_comm, on which FINs travel, is freed.
void stop_persistent_sends();

}  // namespace mh::mpi::rndv
