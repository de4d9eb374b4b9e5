// SPDX-License-Identifier: BSD-3-Clause
// The receiving end of internode pipelines (internode.hpp). Any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "layout/layout.hpp"
#include "p2p/end.hpp"
#include "p2p/rts_header.hpp"

namespace mh::mpi::internode {

// Whether this descriptor is of an internode pipeline to this rank that has not been taken yet.
bool is_new(const p2p::RtsHeader& found);

// A message that is coming in.
class Incoming;
using IncomingPtr = std::shared_ptr<Incoming>;

// Starts to receive the first `bytes` of the packed stream to `to`, which stays valid.
IncomingPtr begin(const p2p::RtsHeader& found, const p2p::End& to, layout::LayoutPtr layout,
                  std::uint64_t bytes);
// Waits for the rest of it.
void finish(Incoming& incoming);

// Messages under way go on. Never blocks.
void progress_receives();
// Some are under way; a hint.
bool any_receives();

}  // namespace mh::mpi::internode
