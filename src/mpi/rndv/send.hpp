// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous sends within a node: the slots of this rank's send table, the RTS headers that are
// sent in place of the data, and each send until its buffer is free again.
//
// Any thread. A slot belongs to the thread that has posted it until the slot is freed. Limit:
// SharedSendTable::kSlots sends at a time; the MPI library sends any further message.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/compat/outgoing_message.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/rndv/posted_sends.hpp"
#include "p2p/rts_header.hpp"
#include "p2p/send_table.hpp"

namespace mh::mpi::rndv {

// The index of a posted send in the send table.
using Slot = std::uint32_t;

// True if this send is to go by rendezvous, provided that the send table has room. Helping is on,
// the receiver is another rank of this node, and the data is long enough and contiguous or of a
// known layout. A contiguous message that is part of an exchange must be longer, unless its buffer
// is in the shared heap or a third rank can help. Sets the layout and the count of data with gaps.
bool choose_rendezvous(OutgoingMessage& message, MPI_Datatype type, const datatypes::Info& info);

// Posts the message in a free slot, if there is one. With p2p::kNoFin the sender reads the slot to
// learn that its buffer is free. Otherwise the FIN is a message with this tag, and the receive of
// the FIN is the program's request: `request`, or with p2p::SendTable::kOwnTag the request that
// receive_fin() makes.
std::optional<Slot> post_send(const OutgoingMessage& message, std::uint32_t fin_tag,
                              MPI_Request request = MPI_REQUEST_NULL);

// Sends the RTS header on the program's communicator. On failure the slot is freed, and no FIN will
// come.
int send_rts(Slot slot, const OutgoingMessage& message);

// Starts the receive of the FIN: the program's request of a rendezvous MPI_Isend. On failure the
// slot is freed.
int receive_fin(Slot slot, MPI_Request* request);

// Waits until the receiver has the message, helps meanwhile, and frees the slot.
void await_done(Slot slot);

// Frees the slots of nonblocking sends whose receivers have the message.
void free_finished_sends();

// MPI_Cancel of a rendezvous send that is not over. True if `request` belongs to such a send. The
// send then completes as cancelled, or as usual if its receiver has taken the message.
bool cancel_send(MPI_Request request);
// The tag of the FIN that completes this request. If several sends have had the handle, the tag of
// the last send.
std::optional<int> fin_tag_of(MPI_Request request);

// Sends, by the library, the messages that their receivers could not copy. A step of the wait loop.
void serve_resends();

// The wait loop's step for messages that this rank sends: copies a chunk of a message whose
// receiver is copying, or pushes a message whose receiver is outside MPI. True if data was moved.
bool move_own_sends();

}  // namespace mh::mpi::rndv
