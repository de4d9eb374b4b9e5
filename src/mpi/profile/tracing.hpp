// SPDX-License-Identifier: BSD-3-Clause
// The trace of this process between MPI_Init and MPI_Finalize (MH_TRACE, docs/trace.md): its start,
// its end, and the events of the MPI calls, whose times profile.hpp measures.
//
// One thread calls start() and stop(). Limit: with several threads in collectives, a call may get
// the CollectiveWay of another thread's call, because both change the same counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "observe/trace.hpp"

namespace mh::mpi::tracing {

// The number of collectives of this rank since its start: those that the ranks of the node carried
// out themselves, and those that waited at an arrival barrier for the MPI library's call.
struct Collectives {
  std::uint64_t by_ranks = 0;
  std::uint64_t by_library = 0;
};
Collectives collectives_so_far();
// Tells in which way a collective was carried out, from the counts (Collectives) before the call
// and now. `none` if neither count has changed.
observe::CollectiveWay way_since(const Collectives& before);

struct CallTimes {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t transfer;  // ticks
};
// The event that enters an MPI call into the trace. `call`: its index in kNextNames, the names of
// the MPI calls. `late`: the rank on the node for which the call has waited, if it has waited.
observe::TraceEvent event_of(std::size_t call, std::uint64_t bytes, std::uint32_t late,
                             const CallTimes& times);

// If MH_TRACE is set, creates this rank's trace file and lets the threads of this process write to
// it. If the file cannot be written, the first rank of the node prints a message.
void start();
// True if this rank has a trace file in the folder that MH_TRACE names.
bool has_file();
// Ends the trace: from then on, this rank writes no event.
void stop();

}  // namespace mh::mpi::tracing
