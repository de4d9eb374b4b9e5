// SPDX-License-Identifier: BSD-3-Clause
// The sending end of internode pipelines (internode.hpp). Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/compat/outgoing_message.hpp"

namespace mh::mpi::internode {

// A send by internode pipeline that is reserved or under way.
using SendId = std::uint32_t;

inline constexpr int kNoFin = -1;
inline constexpr int kOwnFin = -2;  // the FIN's tag is that of the SendId

// True if nothing in the arguments keeps this message from an internode pipeline.
bool may_use_pipeline(const OutgoingMessage& message, MPI_Datatype type,
                      const datatypes::Info& info);
// Reserves a send for the message; nothing if the message or the limits forbid it. Unless `fin_tag`
// is kNoFin, this rank sends itself the FIN on config.node_comm, and `request` is its receive.
std::optional<SendId> reserve_send(const OutgoingMessage& message, MPI_Datatype type,
                                   const datatypes::Info& info, int fin_tag = kNoFin,
                                   MPI_Request request = MPI_REQUEST_NULL);
// Starts the receive of the FIN: the program's request. On failure the send is released.
int receive_fin(SendId id, MPI_Request* request);
// Packs and posts the message. On failure the send is released, and no FIN will come.
int start_send(SendId id, const OutgoingMessage& message);
// Waits until the message is received, and releases the send. For a send with kNoFin.
void await_send(SendId id);

// MPI_Cancel: true if `request` is the receive of a FIN. The send completes at once, not cancelled.
bool complete_on_cancel(MPI_Request request);

// Advances the sends that are posted. Never blocks.
void progress_sends();
// True if a send is under way. relaxed: a hint.
bool any_sends();

}  // namespace mh::mpi::internode
