// SPDX-License-Identifier: BSD-3-Clause
// The constants of this process's job: its rank, the agreements of the node's ranks, the private
// communicators.
//
// Read-only between start-up and MPI_Finalize; any thread reads them without a lock. The writers
// are lifecycle/bootstrap.cpp, lifecycle/node_setup.cpp, internode/internode.cpp and
// rma/remote.cpp, all while no other thread is in a call of ours.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"
#include "steal/job.hpp"

namespace mh::mpi {

// MH_THRESHOLD is brought up to this: a message that is hardly longer than its descriptor gains
// nothing.
inline constexpr std::uint64_t kLeastThreshold = 4096;

struct Config {
  bool rendezvous = false;    // large messages may travel as descriptors: one of the next four
  bool single_copy = false;   // the kernel copies between the ranks, whatever it is
  bool heaps_mapped = false;  // all ranks map each other's heaps (job/heaps.hpp)
  bool pipelines = false;     // messages may go by pipelines (p2p/pipeline.hpp)
  bool internode =
      false;  // messages to other nodes may go by internode pipelines (internode/internode.hpp)
  bool internode_windows = false;  // windows over several nodes may be ours (rma/remote.hpp)
  bool helps_messages = false;     // nothing on this node speaks against helping with messages
  bool windows = false;            // ... nor any rank of it against windows of ours
  bool multiple = false;           // the library has granted MPI_THREAD_MULTIPLE
  bool sharing_loops = false;      // this rank's loops are exposed to others

  std::uint32_t me = 0;     // rank on the node
  std::uint32_t ranks = 0;  // of the node
  int world_rank = 0;
  std::uint64_t key[2] = {0, 0};         // opens every descriptor of this node
  std::uint64_t threshold = 0;           // bytes from which any message of the job is described
  std::uint64_t mapped_threshold = 0;    // ... contiguous ones that peers map
  std::uint64_t unmapped_threshold = 0;  // ... all others
  // ... contiguous ones whose sender receives a long one, too
  std::uint64_t exchange_threshold = 0;
  std::uint64_t help_threshold = 0;         // bytes from which third ranks take a hand,
  std::uint64_t mapped_help_threshold = 0;  // ... where all ranks map both ends
  steal::CopyOrder order = steal::CopyOrder::both_ends;

  MPI_Comm node_comm{};       // ranks of this node, in order; carries completions and resent data
  MPI_Comm internode_comm{};  // a duplicate of MPI_COMM_WORLD, only while `internode`
  MPI_Comm windows_comm{};    // likewise, only while `spanning`
  MPI_Comm self_comm{};       // this rank alone; holds messages that a probe had to take out
};

namespace detail {
[[gnu::visibility("hidden")]] extern Config config;  // for the writers
}
inline constexpr const Config& config = detail::config;

// Third ranks take a hand in a message of so many bytes, which the kernel copies.
inline bool is_for_third_ranks(std::uint64_t bytes) {
  return config.single_copy && config.ranks > 2 && bytes >= config.help_threshold;
}

}  // namespace mh::mpi
