// SPDX-License-Identifier: BSD-3-Clause
// The work of each rank, from its counters, and the sums over all ranks.
//
// The efficiencies are those of the POP centre of excellence (parallel efficiency = load balance x
// communication efficiency) over *useful* time, which is all time outside of waits. Time spent
// helping another rank is neither useful nor waiting. Each efficiency is therefore given without
// and with the time of helping. Plain data, gathered by the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "observe/counters.hpp"

namespace mh::observe {

// kObstacles: the number of reasons why an OpenMP region is not shared. Loops: counts for one rank,
// or sums over all ranks: of the OpenMP regions whose iterations other ranks may do, of the regions
// excluded from this, and of the units of help with iterations.
inline constexpr std::size_t kObstacles = 14;
struct Loops {
  std::uint64_t regions_shared;
  std::uint64_t regions_virtual;               // of regions_shared: run by virtual threads
  std::uint64_t regions_excluded[kObstacles];  // by reason: kObstacleTexts in summary.cpp
  std::uint64_t exposures;                     // executions that were open to helpers
  std::uint64_t units_by_others;               // units done in this rank's loops on lent cores
  std::uint64_t units_waited;                  // units whose core was given back for a wait
  std::uint64_t units_lent;                    // units of other ranks on this rank's core
  std::uint64_t names_used;  // a bit for each name of the lists that matched a region
  std::uint32_t sharing;     // 1: loops of this rank could be shared
};

// The counts of one rank (counters.hpp), or their sums over all ranks.
struct RankCounts {
  std::uint64_t messages_by_rendezvous;
  std::uint64_t bytes_by_rendezvous;
  std::uint64_t resends;
  std::uint64_t messages_without_slot;
  std::uint64_t messages_ended;      // left to the MPI library: rendezvous had ended on the node
  std::uint64_t bytes_outside_heap;  // a buffer was not in the shared heap
  std::uint64_t own_chunks;          // as receiver and as sender
  std::uint64_t own_bytes;
  std::uint64_t others_chunks;
  std::uint64_t others_bytes;
  std::uint64_t chunks_on_lent_cores;  // moved by this rank's helpers on lent cores
  std::uint64_t bytes_on_lent_cores;
  std::uint64_t messages_exchanged;  // left to the MPI library, as parts of exchanges
  std::uint64_t bytes_packed;        // by the layout engine, in MPI_Pack and MPI_Unpack
  std::uint64_t waits;
  std::uint64_t collectives_with_arrival_barrier;
  std::uint64_t collectives_direct;
  std::uint64_t windows_ours;
  std::uint64_t windows_left;
  std::uint64_t one_sided_operations;
  std::uint64_t heap_peak;  // the most bytes in the shared heap; 0: no heap was shared
  std::uint64_t heap_kept;  // bytes of freed blocks held at the end
};

// A row for each count: its name in JSON, and the member of RankCounters that has it, or null if no
// single member does.
struct CountRow {
  const char* key;
  std::uint64_t RankCounts::*count;
  Counter RankCounters::*counter;
};
inline constexpr CountRow kCounts[] = {
    {"messages_by_rendezvous", &RankCounts::messages_by_rendezvous,
     &RankCounters::messages_by_rendezvous},
    {"bytes_by_rendezvous", &RankCounts::bytes_by_rendezvous, &RankCounters::bytes_by_rendezvous},
    {"resends", &RankCounts::resends, &RankCounters::resends},
    {"messages_without_slot", &RankCounts::messages_without_slot,
     &RankCounters::messages_without_slot},
    {"messages_ended", &RankCounts::messages_ended, &RankCounters::messages_ended},
    {"bytes_outside_heap", &RankCounts::bytes_outside_heap, &RankCounters::bytes_outside_heap},
    {"own_chunks", &RankCounts::own_chunks, nullptr},
    {"own_bytes", &RankCounts::own_bytes, nullptr},
    {"others_chunks", &RankCounts::others_chunks, &RankCounters::others_chunks},
    {"others_bytes", &RankCounts::others_bytes, &RankCounters::others_bytes},
    {"chunks_on_lent_cores", &RankCounts::chunks_on_lent_cores,
     &RankCounters::chunks_on_lent_cores},
    {"bytes_on_lent_cores", &RankCounts::bytes_on_lent_cores, &RankCounters::bytes_on_lent_cores},
    {"messages_exchanged", &RankCounts::messages_exchanged, &RankCounters::messages_exchanged},
    {"bytes_packed", &RankCounts::bytes_packed, &RankCounters::bytes_packed},
    {"waits", &RankCounts::waits, &RankCounters::waits},
    {"collectives_with_arrival_barrier", &RankCounts::collectives_with_arrival_barrier,
     &RankCounters::collectives_with_arrival_barrier},
    {"collectives_direct", &RankCounts::collectives_direct, &RankCounters::collectives_direct},
    {"windows_ours", &RankCounts::windows_ours, &RankCounters::windows_ours},
    {"windows_left", &RankCounts::windows_left, &RankCounters::windows_left},
    {"one_sided_operations", &RankCounts::one_sided_operations,
     &RankCounters::one_sided_operations},
    {"heap_peak_bytes", &RankCounts::heap_peak, nullptr},
    {"heap_kept_bytes", &RankCounts::heap_kept, nullptr},
};

struct RankReport : RankCounts {
  std::uint32_t world_rank;
  std::uint32_t node;     // numbered in the order of their first world ranks
  std::uint32_t helping;  // 1: this rank's node shares work
  double elapsed_s;       // from MPI_Init to MPI_Finalize
  double wait_s;          // all time inside the wait loop
  double help_s;          // part of wait_s: copying for other ranks
  double own_copy_s;      // copying own messages: in waits, part of wait_s, and in polls
  double lent_s;          // part of wait_s: the core was lent to another rank
  Loops loops;
};

// Reads one rank's counters. `now_ticks`: the time up to which the run has lasted so far. The
// caller fills in world_rank, node and helping.
RankReport read_counters(const RankCounters& counters, std::uint64_t now_ticks, double ticks_per_s);

struct Efficiency {
  double parallel;
  double load_balance;
  double communication;
};

struct Totals : RankCounts {
  std::uint32_t ranks;
  std::uint32_t nodes;
  double elapsed_s;         // the longest rank
  double useful_s;          // sum over ranks, as are the next three
  double wait_s;            // waits, without helping and without copying own messages
  double help_s;            // copying for other ranks, and cores lent
  double own_copy_s;        // copying own messages
  Efficiency without_help;  // useful time only
  Efficiency with_help;     // useful time and helping
  Loops loops;
};
Totals sum_over_ranks(std::span<const RankReport> ranks);

}  // namespace mh::observe
