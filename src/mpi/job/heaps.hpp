// SPDX-License-Identifier: BSD-3-Clause
// The heap of this rank, whose blocks its peers map (src/heap), and how the ranks of a node give
// each other theirs.
#pragma once

#include <cstdint>
#include <optional>

#include "heap/door.h"
#include "node/segment.hpp"

namespace mh::mpi::heaps {

// Collective over the node, after Services::memory is there. Gives every rank's heap to every
// other; `door` is the root's, null elsewhere. True where every rank has a heap, wants to share it,
// and sees all others'.
bool share(bool wanted, node::Door* door, const node::DoorName& name);

// Whether the peers can reach all of these bytes of this rank. Some nanoseconds; only while
// Config::mapping.
bool hold(const void* address, std::uint64_t bytes);

// The statistics of the heap; nothing without a shared heap.
std::optional<mh_heap_stats> stats();

}  // namespace mh::mpi::heaps
