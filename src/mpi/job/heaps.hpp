// SPDX-License-Identifier: BSD-3-Clause
// The shared heap of this rank (src/heap), and the exchange of the heaps among the ranks of a node.
#pragma once

#include <cstdint>
#include <optional>

#include "heap/door.h"
#include "node/segment.hpp"

namespace mh::mpi::heaps {

// Collective over the node, after Services::memory exists. Every rank maps the heaps of all other
// ranks. `door`: the socket that the root passes descriptors through; null on other ranks. True if
// every rank has a heap, wants to share it, and has mapped the heaps of all other ranks.
bool share(bool wanted, node::Door* door, const node::DoorName& name);

// True if the peers can reach all of these bytes of this rank. Some nanoseconds; only while
// ProcessConfig::heaps_mapped.
bool contain(const void* address, std::uint64_t bytes);

// The statistics of this rank's heap. Nothing if the ranks do not share their heaps.
std::optional<mh_heap_stats> stats();

}  // namespace mh::mpi::heaps
