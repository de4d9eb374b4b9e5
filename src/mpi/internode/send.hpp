// SPDX-License-Identifier: BSD-3-Clause
// The sending end of internode pipelines (internode.hpp). Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/compat/outgoing_message.hpp"

namespace mh::mpi::internode {

// The index of a send by internode pipeline that is reserved or under way.
using SendId = std::uint32_t;

// Values of `fin_tag`, the tag of the FIN of a send, in place of a tag.
inline constexpr int kNoFin = -1;   // no FIN: await_send() waits for the send
inline constexpr int kOwnFin = -2;  // the tag is tags::kInternodeFins[id]

// True if the message may go by internode pipeline, by its datatype, length and receiver.
bool may_use_pipeline(const OutgoingMessage& message, MPI_Datatype type,
                      const datatypes::Info& info);
// Reserves a send for the message; nothing if the message may not go by internode pipeline, or too
// many sends or piece buffers are in use. Unless `fin_tag` is kNoFin, this rank sends itself the
// FIN on config.node_comm. The FIN completes the program's request. `request` is the receive of the
// FIN, if the receive exists already.
std::optional<SendId> reserve_send(const OutgoingMessage& message, MPI_Datatype type,
                                   const datatypes::Info& info, int fin_tag = kNoFin,
                                   MPI_Request request = MPI_REQUEST_NULL);
// Starts the receive of the FIN, whose request becomes the program's. On failure the send is
// released.
int receive_fin(SendId id, MPI_Request* request);
// Sends the RTS header, then packs and posts all pieces. If the RTS header cannot be sent, the send
// is released, and no FIN will come.
int start_send(SendId id, const OutgoingMessage& message);
// Waits until the MPI library has sent all pieces, or the receiver has received none for too long
// (internode.hpp). Called for a send without FIN (kNoFin).
void await_send(SendId id);

// Called by MPI_Cancel. True if `request` is the receive of the FIN of a send under way. The send
// then completes at once, as a send that was not cancelled, because its pieces cannot be taken
// back.
bool complete_instead_of_cancel(MPI_Request request);

// Advances the sends by internode pipeline that this rank has posted. A step of the wait loop;
// never blocks.
void progress_sends();
// True if this rank has a send by internode pipeline under way. relaxed: a hint.
bool any_sends();

}  // namespace mh::mpi::internode
