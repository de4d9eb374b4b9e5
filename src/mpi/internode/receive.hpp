// SPDX-License-Identifier: BSD-3-Clause
// The receiving end of internode pipelines (internode.hpp). Any thread may call these
// functions.
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

// A message that is being received by internode pipeline.
class Incoming;
using IncomingPtr = std::shared_ptr<Incoming>;

// Starts to receive the message of `header`: the first `bytes` bytes of its packed stream go into
// the buffer `to`. The caller keeps that buffer valid until finish_receive() has returned.
IncomingPtr begin_receive(const p2p::RtsHeader& header, const p2p::End& to,
                          layout::LayoutPtr layout, std::uint64_t bytes);
// Waits in the wait loop until all bytes of the message have been received and unpacked.
void finish_receive(Incoming& incoming);

// Receives pieces, and unpacks chunks, of all messages that this rank receives by internode
// pipeline. A step of the wait loop. Never blocks.
void progress_receives();
// True if this rank receives a message by internode pipeline. relaxed: a hint.
bool any_receives();

}  // namespace mh::mpi::internode
