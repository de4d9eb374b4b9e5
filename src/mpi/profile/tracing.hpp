// SPDX-License-Identifier: BSD-3-Clause
// The trace of this process between MPI_Init and MPI_Finalize (MH_TRACE, docs/trace.md): its start,
// its end, and the events of MPI calls, which profile.hpp has timed.
//
// One thread calls start() and stop(). Limit: with several threads in collectives, a call may get
// the CollectiveWay of another thread's call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "observe/trace.hpp"

namespace mh::mpi::tracing {

// The number of collectives of this rank since its start: those carried out by the ranks of the
// node, and those that the library carried out after an arrival barrier.
struct Collectives {
  std::uint64_t by_ranks = 0;
  std::uint64_t by_library = 0;
};
Collectives collectives_so_far();
// Tells which of the two ways a call went, from the counts before the call; `none` if neither count
// has changed.
observe::CollectiveWay way_since(const Collectives& before);

struct CallTimes {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t transfer;  // ticks
};
// The event of a call. `late`: the rank of the node for which the call has waited, if it has
// waited.
observe::TraceEvent event_of(std::size_t call, std::uint64_t bytes, std::uint32_t late,
                             const CallTimes& times);

// Publishes the trace if MH_TRACE is set. If the trace cannot be written, the first rank of the
// node prints a message.
void start();
// True if this rank has a trace file in the folder.
bool has_file();
// Ends the trace: from then on, this rank writes no event.
void stop();

}  // namespace mh::mpi::tracing
