// SPDX-License-Identifier: BSD-3-Clause
// What one rank did, from its counters, and the sums over all ranks.
//
// The efficiencies are those of POP (parallel efficiency = load balance x communication efficiency)
// over *useful* time, that is all time outside waits. Time spent helping a neighbour is neither
// useful nor waiting: it is a third class, and every efficiency is given without it and with it.
// Plain data, gathered by the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "observe/counters.hpp"

namespace mh::observe {

// Parallel loops whose iterations other ranks may do, and those they may not.
inline constexpr std::size_t kObstacles = 11;
struct Loops {
  std::uint64_t regions_shared;
  std::uint64_t regions_excluded[kObstacles];  // see kObstacleTexts in summary.cpp
  std::uint64_t exposures;                     // executions that were open to others
  std::uint64_t units_by_others;               // done in this rank's loops on lent cores
  std::uint64_t units_waited;                  // of these, those whose core went back for a wait
  std::uint64_t units_lent;                    // this rank's core, for others' work
  std::uint64_t names_used;                    // a bit for each name of the lists that met a region
  std::uint32_t sharing;                       // 1: loops of this rank could be shared
};

// Of one rank, or of all.
struct Counts {
  std::uint64_t messages_by_rendezvous;
  std::uint64_t bytes_by_rendezvous;
  std::uint64_t resends;
  std::uint64_t messages_without_slot;
  std::uint64_t messages_ended;  // comms::has_ungated()
  std::uint64_t own_chunks;      // as receiver and as sender
  std::uint64_t own_bytes;
  std::uint64_t others_chunks;
  std::uint64_t others_bytes;
  std::uint64_t lent_chunks;  // of this rank's receives, on cores that others lent
  std::uint64_t lent_bytes;
  std::uint64_t messages_exchanged;  // left to the MPI library, as both ends were busy
  std::uint64_t bytes_packed;        // by MPI_Pack and MPI_Unpack through the layout engine
  std::uint64_t waits;
  std::uint64_t collectives_gated;
  std::uint64_t windows_ours;
  std::uint64_t windows_left;
  std::uint64_t one_sided_operations;
  std::uint64_t heap_peak;  // bytes in the shared heap at a time, at most; 0: none was shared
  std::uint64_t heap_kept;  // ... of freed blocks that it kept at the end
};

// Each of them, its name in JSON, and the counter that it is, if it is one.
struct CountRow {
  const char* key;
  std::uint64_t Counts::*count;
  Count Counters::*counter;
};
inline constexpr CountRow kCounts[] = {
    {"messages_by_rendezvous", &Counts::messages_by_rendezvous, &Counters::messages_by_rendezvous},
    {"bytes_by_rendezvous", &Counts::bytes_by_rendezvous, &Counters::bytes_by_rendezvous},
    {"resends", &Counts::resends, &Counters::resends},
    {"messages_without_slot", &Counts::messages_without_slot, &Counters::messages_without_slot},
    {"messages_ended", &Counts::messages_ended, &Counters::messages_ended},
    {"own_chunks", &Counts::own_chunks, nullptr},
    {"own_bytes", &Counts::own_bytes, nullptr},
    {"others_chunks", &Counts::others_chunks, &Counters::others_chunks},
    {"others_bytes", &Counts::others_bytes, &Counters::others_bytes},
    {"lent_chunks", &Counts::lent_chunks, &Counters::lent_chunks},
    {"lent_bytes", &Counts::lent_bytes, &Counters::lent_bytes},
    {"messages_exchanged", &Counts::messages_exchanged, &Counters::messages_exchanged},
    {"bytes_packed", &Counts::bytes_packed, &Counters::bytes_packed},
    {"waits", &Counts::waits, &Counters::waits},
    {"collectives_gated", &Counts::collectives_gated, &Counters::collectives_gated},
    {"windows_ours", &Counts::windows_ours, &Counters::windows_ours},
    {"windows_left", &Counts::windows_left, &Counters::windows_left},
    {"one_sided_operations", &Counts::one_sided_operations, &Counters::one_sided_operations},
    {"heap_peak_bytes", &Counts::heap_peak, nullptr},
    {"heap_kept_bytes", &Counts::heap_kept, nullptr},
};

struct RankReport : Counts {
  std::uint32_t world_rank;
  std::uint32_t node;     // 0.., in the order of their first world rank
  std::uint32_t helping;  // 1: this rank's node shares work; 0: see Why
  double elapsed_s;       // from MPI_Init to MPI_Finalize
  double wait_s;          // inside the wait loop, all of it
  double help_s;          // of that: copying for others
  double own_copy_s;      // of that: copying own messages
  double lent_s;          // of that: the core was lent to another rank
  Loops loops;
};

// Reads one rank's counters; the caller fills in world_rank, node and helping.
RankReport read_counters(const Counters& counters, std::uint64_t now_ticks, double ticks_per_s);

struct Efficiency {
  double parallel;
  double load_balance;
  double communication;
};

struct Totals : Counts {
  std::uint32_t ranks;
  std::uint32_t nodes;
  double elapsed_s;  // the longest rank
  double useful_s;   // sum over ranks, as are all below
  double wait_s;     // waiting that stayed waiting
  double help_s;     // copying for others and cores lent
  double own_copy_s;
  Efficiency without_help;  // useful time only
  Efficiency with_help;     // useful time and helping
  Loops loops;
};
Totals total(std::span<const RankReport> ranks);

}  // namespace mh::observe
