// SPDX-License-Identifier: BSD-3-Clause
// The shared heap of this rank (src/heap), and the exchange of the heaps among the ranks of a node.
#pragma once

#include <cstdint>
#include <optional>

#include "heap/door.h"
#include "node/segment.hpp"

namespace mh::mpi::heaps {

// Exchanges the heaps of the ranks of the node: every rank maps the heaps of all other ranks.
// Collective, after Services::memory has been made. `door`: the socket through which the node's
// first rank passes file descriptors; null on other ranks. True if every rank has a heap, wants to
// share it, and has mapped the heaps of all other ranks.
bool share(bool wanted, node::Door* door, const node::DoorName& name);

// Called if the ranks of the node do not share their heaps. This rank's heap, if the user has not
// asked for one (MH_HEAP=auto), then takes no more memory, which would cost time and gain nothing.
void stop_growing();

// True if the other ranks of the node reach all of these bytes, because they lie in this rank's
// shared heap. Takes some nanoseconds. May be called only while ProcessConfig::heaps_mapped is
// true.
bool contain(const void* address, std::uint64_t bytes);

// Returns the statistics of this rank's heap; nothing if the ranks do not share their heaps.
std::optional<mh_heap_stats> stats();

}  // namespace mh::mpi::heaps
