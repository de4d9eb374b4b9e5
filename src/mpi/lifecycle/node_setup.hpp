// SPDX-License-Identifier: BSD-3-Clause
// How the ranks of a node find each other at start-up: communicators, the shared segment, and
// access to each other's memory. All ranks of the node agree on every step.
//
// Called by bootstrap.cpp only, in one thread, collectively.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mh::mpi::node_setup {

// Waits until every rank of the MPI job has called this function. A rank that runs without
// Manyhands never does: after tuning::kStartPatienceNs, rank 0 prints that every rank needs the
// LD_PRELOAD.
void await_everyone();

// Makes the communicators for messages of Manyhands' own, and sets config.me and config.ranks, the
// rank on this node and the number of ranks on it.
void make_communicators();

// Builds the node: the segment, the RankRecord of each rank in it (node/rank.hpp), and access to
// the memory of the other ranks. The results are in `config`; switches.active is set once the
// segment exists.
void build_node();

// Closes the descriptor by which `mh top` finds the segment: from now on `mh top` does not see this
// MPI job.
void withdraw_node();

// Sets config.least_threshold to the size of the shortest message that any rank of the MPI job
// sends by rendezvous. A receive with a shorter buffer need not expect an RTS header.
void agree_on_threshold();

// Returns the reason, agreed among the ranks of this node, why the kernel does not copy between
// them; empty if it does. If no message goes by rendezvous (config.rendezvous is false), it is the
// reason why the ranks do not help each other with messages.
const std::string& why_no_single_copy();

// Returns the number of cores of this node that its ranks may use. Simulated nodes that share a
// machine (MH_FAKE_NODES) divide its cores.
std::uint32_t usable_cores();
// True if the node has more ranks than cores: another rank needs the core of a waiting rank.
bool oversubscribed();

// Returns the number of bytes from the beginning of a rank's area in the segment to the cells of
// its pipelines.
std::size_t cells_offset();

}  // namespace mh::mpi::node_setup
