// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous sends within a node: the slots of this rank's send table, the RTS headers that are
// sent in place of the data, and each send until its buffer is free again.
//
// Any thread may call these functions. Before send_rts() has sent the RTS header, only the thread
// that has posted a send uses its slot. Afterwards any thread of the rank may push, resend or
// cancel the message, and free the slot of a nonblocking send. Limit: SharedSendTable::kSlots sends
// at a time; the MPI library sends any further message.
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

// The index of a slot, and of the posted send in it, in this rank's send table.
using Slot = std::uint32_t;

// True if this send is to go by rendezvous, provided that the send table has room. Rendezvous must
// be allowed, and the receiver must be another rank of this node. The data must be long enough, be
// contiguous or have a layout, and be able to move while this thread is outside the wait loop. A
// contiguous message of an exchange must have config.exchange_threshold bytes, unless its buffer is
// in the shared heap or a third rank can help. Sets `layout` and `count` of a message with gaps.
bool choose_rendezvous(OutgoingMessage& message, MPI_Datatype type, const datatypes::Info& info);

// Posts the message in a free slot; nothing if all slots are in use or rendezvous has ended on the
// node. With `fin_tag` p2p::kNoFin no FIN comes: await_done() reads the slot to learn that the
// buffer is free. Otherwise the FIN has this tag, and the program's request is the receive of the
// FIN, `request`. With p2p::SendTable::kOwnTag the slot chooses the tag, and receive_fin() makes
// the request.
std::optional<Slot> post_send(const OutgoingMessage& message, std::uint32_t fin_tag,
                              MPI_Request request = MPI_REQUEST_NULL);

// Sends the RTS header on the program's communicator. On failure the slot is freed, and no FIN will
// come.
int send_rts(Slot slot, const OutgoingMessage& message);

// Starts the receive of the FIN, whose request is the program's request of a rendezvous MPI_Isend.
// On failure the slot is freed.
int receive_fin(Slot slot, MPI_Request* request);

// Waits in the wait loop until the receiver has the message, then frees the slot. Called for a send
// without FIN (p2p::kNoFin).
void await_done(Slot slot);

// Frees the slots of nonblocking sends whose receivers have the message.
void free_finished_sends();

// Carries out MPI_Cancel of a rendezvous send that is not over. True if `request` belongs to such a
// send. That send then completes as cancelled, or as usual if its receiver has taken the message.
bool cancel_send(MPI_Request request);
// The tag of the FIN that completes this request; nothing if receive_fin() has not made the
// request. The MPI library reuses handles; if several sends have had the handle, this is the tag of
// the last send.
std::optional<int> fin_tag_of(MPI_Request request);

// Sends through the MPI library the messages that their receivers could not copy (SlotState::resend
// in p2p/send_table.hpp). A step of the wait loop.
void serve_resends();

// The wait loop's step for messages that this rank sends: claims and copies a chunk of the
// receiver's job, or pushes a message whose receiver is outside MPI. True if data was moved.
bool move_own_sends();

}  // namespace mh::mpi::rndv
