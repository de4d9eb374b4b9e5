// SPDX-License-Identifier: BSD-3-Clause
// How the ranks of a node find each other at start-up: communicators, the shared segment, and what
// each may do with the memory of the others. Every step is agreed on by all ranks of the node.
//
// Called by bootstrap.cpp alone, in one thread, collectively.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mh::mpi::node_setup {

// Waits until every rank of the job has come here; a rank without the library never does, which is
// said after a while.
void await_everyone();

// The private communicators, and this rank's place on its node.
void make_communicators();

// Builds up the node. What came of it stands in `config`; switches.active is set once the segment
// is there.
void build_node();

// The shortest message that any rank of the job describes: what a receiver need not expect in
// shorter receives.
void agree_on_threshold();

// Why this node's ranks do not help each other with messages, empty if they do.
const std::string& why_not();

// Cores of this node that its ranks may use; nodes that are parts of one machine have at most their
// part of its cores.
std::uint32_t usable_cores();
// More ranks than cores: a core that waits is somebody else's.
bool oversubscribed();

// Where the cells of a rank's pipelines begin in its area.
std::size_t cells_offset();

}  // namespace mh::mpi::node_setup
