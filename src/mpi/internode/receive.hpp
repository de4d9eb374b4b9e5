// SPDX-License-Identifier: BSD-3-Clause
// The receiving end of internode pipelines (internode.hpp). Any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "layout/layout.hpp"
#include "p2p/end.hpp"
#include "p2p/rts_header.hpp"

namespace mh::mpi::internode {

// True if the RTS header belongs to a message to this rank, and begin_receive() has not been called
// for the message.
bool is_unreceived(const p2p::RtsHeader& header);

// A message that is being received.
class Incoming;
using IncomingPtr = std::shared_ptr<Incoming>;

// Starts to receive the first `bytes` of the packed stream into `to`. The memory of `to` stays
// valid until finish_receive() has returned.
IncomingPtr begin_receive(const p2p::RtsHeader& header, const p2p::End& to,
                          layout::LayoutPtr layout, std::uint64_t bytes);
// Waits in the wait loop until all bytes have been received and unpacked.
void finish_receive(Incoming& incoming);

// Receives pieces, and unpacks chunks, of the messages that are being received. Never blocks.
void progress_receives();
// True if a message is being received. relaxed: a hint.
bool any_receives();

}  // namespace mh::mpi::internode
