// SPDX-License-Identifier: BSD-3-Clause
// Rounds with blocks of any length (coll/block_table.hpp): each pair of ranks moves its own blocks.
//
// The sender of a block decides how the block moves. Blocks that fit into the sender's staged block
// of the round, a part of its board, are copied there. Longer blocks in memory that all ranks map
// are copied by the receiver, straight from the sender's buffer. All other blocks are messages of
// the MPI library on config.node_comm. The sender waits for the receivers of its mapped blocks and
// of its messages. A receiver waits only for ranks from which it expects data, and begins with the
// ranks that have already published their records of the round.
//
// Errors: MPI_ERR_TRUNCATE on a rank that gets more bytes from a peer than it expects, and the
// library's errors of messages. Threads: one thread at a time in the collectives of a communicator.
// Limits: coll::kMostMembers ranks; a rank that calls another collective than its peers gets
// MPI_ERR_TRUNCATE, and so do the peers.
#pragma once

#include "coll/block_table.hpp"
#include "mpi/collective/round.hpp"
#include "mpi/collective/typed_blocks.hpp"

namespace mh::mpi::direct {

// The blocks that this rank sends (out) and receives (in) in a call, by the peer's rank in the
// communicator. A block without bytes does not move.
struct PeerBlocks {
  TypedBlocks out[coll::kMostMembers];
  TypedBlocks in[coll::kMostMembers];

  // Sets the length (`bytes`) of each block that a call with a root uses on this rank to 0. These
  // are the blocks for the root and for this rank itself, and on the root the blocks for all ranks.
  // The other blocks stay uninitialised.
  void empty_used_blocks(const Comm& comm, int root) {
    out[root].bytes = in[root].bytes = out[comm.rank].bytes = in[comm.rank].bytes = 0;
    for (int rank = 0; root == comm.rank && rank < comm.size; ++rank)
      out[rank].bytes = in[rank].bytes = 0;
  }
};

// True if a block table (coll/block_table.hpp) has room for an entry for each peer in this
// communicator, so that its collectives can be pairwise rounds. The same on all its ranks.
inline bool can_be_pairwise(const Comm& comm) {
  return comm.size <= static_cast<int>(coll::kMostMembers);
}

// Carries out a collective as a pairwise round and returns the MPI code of the call. In a call with
// a root, only the root has all ranks as peers; all others exchange blocks with the root alone.
int exchange_pairwise(Comm& comm, RoundCall call, const PeerBlocks& blocks,
                      std::uint32_t root = coll::Peers::kNoRoot);

}  // namespace mh::mpi::direct
