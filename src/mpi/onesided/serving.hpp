// SPDX-License-Identifier: BSD-3-Clause
// What a rank does for those of other nodes: carries out their operations in its own memory, keeps
// its lock for them, and puts into place what they answer.
//
// One thread at a time serves, the *server*: whoever waits in the wait loop or polls, or the thread
// of server_thread.hpp. Requests of one rank are carried out in the order in which it made them,
// one at a time; a large one is a job of this rank, of which a turn does one chunk. Nothing here
// waits.
#pragma once

#include <cstdint>

namespace mh::mpi::rma {

// One turn. True if there was something to do. Costs a load where there are no windows over several
// nodes.
bool serve_other_nodes();
// Of the last turn, by any thread, in ticks.
std::uint64_t last_turn();

}  // namespace mh::mpi::rma
