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

// Waits until every rank of the MPI job has called this function. After tuning::kStartPatienceNs,
// rank 0 prints that every rank of the MPI job needs the LD_PRELOAD.
void await_everyone();

// Makes the private communicators, and sets config.me and config.ranks.
void make_communicators();

// Builds the node. The results are in `config`; switches.active is set once the segment exists.
void build_node();

// From now on `mh top` does not see this MPI job.
void withdraw_node();

// Sets config.least_threshold to the size of the shortest message that any rank of the MPI job
// sends by rendezvous. Shorter receives need not expect an RTS header.
void agree_on_threshold();

// The agreed reason why the kernel does not copy between the ranks of this node; empty if it does.
// Without config.rendezvous, the reason why the ranks do not help each other with messages.
const std::string& why_no_single_copy();

// Cores of this node that its ranks may use. Nodes that share a machine (MH_FAKE_NODES) divide its
// cores.
std::uint32_t usable_cores();
// True with more ranks than cores: another rank needs the core of a waiting rank.
bool oversubscribed();

// Bytes from the beginning of a rank's area to the cells of its pipelines.
std::size_t cells_offset();

}  // namespace mh::mpi::node_setup
