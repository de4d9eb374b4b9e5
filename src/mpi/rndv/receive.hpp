// SPDX-License-Identifier: BSD-3-Clause
// A receive request gets its message: the RTS header in its buffer becomes the data.
//
// Any thread that has pinned the request.
#pragma once

#include <optional>

#include "mpi/rndv/receive_requests.hpp"

namespace mh::mpi::rndv {

// The library has completed the receive with `status`. If an RTS header came: gets the message, by
// copying it or because its sender has pushed it.
//
// Two receives may be started for overlapping memory. The standard forbids that, and libraries do
// not mind. Then one message may be written over the header of another. A header that is lost in
// this way is found in its sender's send table, by the envelope that the library reports. Limit:
// not from other nodes; with several threads in MPI, not if the sender also sends messages of a
// header's size with that communicator and tag.
std::optional<Delivery> fetch_completed(ReceiveRequest& request, const MPI_Status& status);

// The library has not said yet that the receive is complete, but a header lies in the buffer.
std::optional<Delivery> fetch_landed(ReceiveRequest& request);
bool has_landed(const ReceiveRequest& request);

// A header from another node lies in the buffer of a started receive: begins to receive its
// message. Nothing is begun where the library alone can read the type.
std::optional<IncomingMessage> begin_incoming(const ReceiveRequest& request);

// Lets the sender push to a started receive, if the buffer is contiguous and within its reach.
void post_receive(ReceiveRequest& request);
void unpost_receive(ReceiveRequest& request);

}  // namespace mh::mpi::rndv
