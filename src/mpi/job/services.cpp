// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/job/services.hpp"

#include <cstddef>

#include "base/settings.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/tags.hpp"

namespace mh::mpi {

ProcessConfig detail::config;
Switches switches;
Services services;

steal::Thief& thief() {
  constexpr steal::AreaOffsets kOffsets{.slots = offsetof(RankArea, jobs),
                                        .counters = offsetof(RankArea, counters),
                                        .helped = sizeof(RankArea)};
  thread_local steal::Thief own_thief(*services.node, kOffsets, settings().strategy,
                                      settings().saturate_ranks, *services.memory);
  return own_thief;
}

void kick_progress() {
  // Probes on the communicator of the node's ranks, because MPICH answers a probe on a communicator
  // of a single rank without any progress.
  int flag = 0;
  real.Iprobe(MPI_ANY_SOURCE, tags::kProgressKick.first, config.node_comm, &flag,
              MPI_STATUS_IGNORE);
}

}  // namespace mh::mpi
