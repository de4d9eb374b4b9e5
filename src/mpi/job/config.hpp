// SPDX-License-Identifier: BSD-3-Clause
// The constants of this process in its MPI job: its rank, what the ranks of the node have agreed on
// at the start, and the communicators for messages of Manyhands' own.
//
// Read-only between start-up and MPI_Finalize; any thread reads them without a lock. The writers
// are lifecycle/bootstrap.cpp, lifecycle/node_setup.cpp, internode/internode.cpp and
// rma/remote.cpp, all while no other thread is in an intercepted call.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"
#include "steal/job.hpp"

namespace mh::mpi {

// The least threshold for rendezvous, in bytes. A lower MH_THRESHOLD is raised to this value: a
// rendezvous does not pay for shorter messages.
inline constexpr std::uint64_t kLeastThreshold = 4096;

struct ProcessConfig {
  // True if messages on this node may go by rendezvous: single_copy, heaps_mapped or pipelines is
  // true.
  bool rendezvous = false;
  bool single_copy = false;   // the kernel copies between any two ranks of the node
  bool heaps_mapped = false;  // all ranks map each other's heaps (job/heaps.hpp)
  bool pipelines = false;     // messages may go through cells (p2p/pipeline.hpp)
  // True if messages to other nodes may go by internode pipelines (internode/internode.hpp).
  bool internode = false;
  bool internode_windows = false;  // Manyhands serves windows over nodes (rma/remote.hpp)
  bool helps_messages = false;     // ranks of this node may help with messages
  bool windows = false;            // Manyhands serves windows of this node
  bool rounds = false;             // the ranks carry out collectives of this node themselves
  bool multiple = false;           // the MPI library has granted MPI_THREAD_MULTIPLE
  bool sharing_loops = false;      // helpers may join loops of this rank

  std::uint32_t me = 0;     // rank on the node
  std::uint32_t ranks = 0;  // of the node
  int world_rank = 0;
  std::uint64_t key[2] = {0, 0};  // opens every RTS header of the MPI job

  // Lengths in bytes from which a message goes by rendezvous.
  std::uint64_t least_threshold = 0;     // the least threshold of any rank of the MPI job
  std::uint64_t mapped_threshold = 0;    // contiguous, in memory that the peers map
  std::uint64_t unmapped_threshold = 0;  // all other messages: MH_THRESHOLD
  std::uint64_t exchange_threshold = 0;  // contiguous and unmapped messages of an exchange
  // Lengths in bytes from which third ranks, neither sender nor receiver, help with a message.
  std::uint64_t help_threshold = 0;                      // of a message that the kernel copies
  std::uint64_t mapped_help_threshold = 0;               // of a message whose ends all ranks map
  steal::CopyOrder order = steal::CopyOrder::both_ends;  // of chunks, by MH_POST_COMM_ACCESS

  MPI_Comm node_comm{};       // ranks of this node, in order; carries FINs and resent data
  MPI_Comm internode_comm{};  // a duplicate of MPI_COMM_WORLD, only while `internode`
  MPI_Comm windows_comm{};    // a duplicate of MPI_COMM_WORLD, only while `internode_windows`
  MPI_Comm self_comm{};       // this rank alone; carries held messages (rndv/held_messages.hpp)
};

namespace detail {
[[gnu::visibility("hidden")]] extern ProcessConfig config;  // for the writers
}
inline constexpr const ProcessConfig& config = detail::config;

// True if third ranks, neither sender nor receiver, help with a message of `bytes` bytes that the
// kernel copies.
inline bool is_for_third_ranks(std::uint64_t bytes) {
  return config.single_copy && config.ranks > 2 && bytes >= config.help_threshold;
}

}  // namespace mh::mpi
