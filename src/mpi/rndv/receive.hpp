// SPDX-License-Identifier: BSD-3-Clause
// The receiving end of a rendezvous: puts the message in place of the RTS header in the receive
// buffer.
//
// Any thread may call these functions, after it has pinned the request (receive_requests.hpp).
#pragma once

#include <optional>

#include "mpi/rndv/receive_requests.hpp"

namespace mh::mpi::rndv {

// Fetches the message of a receive into its buffer, if an RTS header came: copies the message, or
// waits until the sender has pushed it. `status` is the MPI library's; null while the library has
// not reported the receive as complete. Returns the outcome of the receive; nothing if no
// rendezvous message came.
//
// The standard forbids two receives into overlapping memory, but the libraries accept such
// receives. One message may then overwrite the RTS header of another message. This rank finds the
// send of an overwritten header in the sender's send table, by the envelope that the library
// reports, and rendezvous ends on the node. Limits: the send is not found if it comes from another
// node, or if its sender also sends messages of a header's size with that communicator and tag. The
// receive then completes as with an ordinary message of 96 bytes, and the wait loop buffers the
// send (buffered_sends.hpp).
std::optional<Delivery> fetch_message(ReceiveRequest& request, const MPI_Status* status);
// True if the RTS header of a send of this node lies in the buffer of a started receive, and
// neither sender nor receiver has taken the send.
bool has_landed(const ReceiveRequest& request);

// Begins to receive the message from another node whose header lies in the buffer of a started
// receive. Nothing if the buffer holds no such header, or if only the MPI library can read the
// datatype.
std::optional<IncomingMessage> begin_incoming(const ReceiveRequest& request);

// Allows the sender to push the message of a started receive, if the buffer is contiguous and the
// sender's process can write to it. The function unpost_receive() ends the permission, and is
// called after the receive is complete.
void post_receive(ReceiveRequest& request);
void unpost_receive(ReceiveRequest& request);

}  // namespace mh::mpi::rndv
