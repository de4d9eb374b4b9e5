// SPDX-License-Identifier: BSD-3-Clause
// The trace of this process between MPI_Init and MPI_Finalize (MH_TRACE, docs/trace.md): its start,
// its end, and the events of MPI calls, which a profile has timed.
//
// start() and stop(): one thread. Limit: with several threads in collectives, the way of a
// collective may be attributed to the wrong call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "observe/trace.hpp"

namespace mh::mpi::tracing {

// The collectives of this rank so far: carried out by the ranks, or by the library.
struct Collectives {
  std::uint64_t by_ranks = 0;
  std::uint64_t by_library = 0;
};
Collectives collectives_so_far();
observe::CollectiveWay way_since(const Collectives& before);

struct CallTimes {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t transfer;  // ticks
};
// `late`: a rank of the node, if the call has waited.
observe::TraceEvent event_of(std::size_t call, std::uint64_t bytes, std::uint32_t late,
                             const CallTimes& times);

// Publishes the trace if MH_TRACE is set. If the trace cannot be written, the first rank of the
// node prints a message.
void start();
// True if this rank has a trace file in the folder.
bool has_file();
// Ends the trace: this rank writes no further event.
void stop();

}  // namespace mh::mpi::tracing
