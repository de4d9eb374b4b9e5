// SPDX-License-Identifier: BSD-3-Clause
// The receiving end of internode pipelines (internode.hpp). Any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "layout/layout.hpp"
#include "p2p/end.hpp"
#include "p2p/rts_header.hpp"

namespace mh::mpi::internode {

// The header is of a message to this rank whose receive has not begun.
bool is_unreceived(const p2p::RtsHeader& header);

// A message that is being received.
class Incoming;
using IncomingPtr = std::shared_ptr<Incoming>;

// Starts to receive the first `bytes` of the packed stream to `to`, which stays valid until
// finish_receive() has returned.
IncomingPtr begin_receive(const p2p::RtsHeader& header, const p2p::End& to,
                          layout::LayoutPtr layout, std::uint64_t bytes);
// Waits until the message is complete.
void finish_receive(Incoming& incoming);

// Advances the messages under way. Never blocks.
void progress_receives();
// A message is under way; a hint.
bool any_receives();

}  // namespace mh::mpi::internode
