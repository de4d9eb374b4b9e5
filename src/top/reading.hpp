// SPDX-License-Identifier: BSD-3-Clause
// The state and the counts of every rank of a node at one moment.
//
// A reading is not atomic: the ranks go on while it is taken. Each number was true within the few
// microseconds of the reading. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "observe/totals.hpp"
#include "top/segment_view.hpp"

namespace mh::top {

// The states in which `mh top` shows a rank; output.cpp has their names for people. A rank that
// copies moves a chunk of a message. A rank that lends has its core lent to a helper of another
// rank. The process of a rank that is gone has ended.
enum class State : std::uint8_t { computes, in_mpi, waits, copies, lends, gone };
inline constexpr std::size_t kStates = 6;

// The kind of call in which a rank waits, as far as the segment tells.
enum class WaitsAt : std::uint8_t { unknown, barrier, collective };

inline constexpr std::uint32_t kNobody = ~0U;

struct RankState {
  State state = State::computes;
  // The rank of the node for which this rank copies, or to which it lends its core. kNobody: there
  // is none; a rank that copies then copies a message that it receives.
  std::uint32_t helped = kNobody;
  WaitsAt at = WaitsAt::unknown;
  std::vector<std::uint32_t> late;     // the ranks of the node for which this rank waits
  std::vector<std::uint32_t> helpers;  // ranks that lend this rank a core or copy its messages
};

struct RankNumbers {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t copied_bytes = 0;  // for other ranks
  std::uint64_t units_given = 0;
  std::uint64_t units_received = 0;
  std::uint64_t collectives = 0;
  std::uint64_t wait_ticks = 0;  // of all waits, of the wait under way as well
  std::uint64_t help_ticks = 0;  // part of wait_ticks: copying for others, and the core lent
  std::uint64_t own_copy_ticks = 0;
};

// The state of each rank of the node. `own_pids`: the result of has_own_pids(). If false, the
// ranks' process numbers mean nothing in this process, and no rank is reported as gone.
std::vector<RankState> read_states(const SegmentView& view, bool own_pids);
// The counts of each rank since the start of the MPI job. `now`: the time (ticks) up to which a
// wait under way counts.
std::vector<RankNumbers> read_numbers(const SegmentView& view, std::uint64_t now);

// The work of the ranks since the start of the MPI job, and the age of the job in seconds. `now`:
// the time (ticks) up to which both count.
observe::Totals read_totals(const SegmentView& view, std::uint64_t now);

// True if the process numbers in the segment are valid in the pid namespace of this process.
bool has_own_pids(const SegmentView& view);
// True while the process of the rank runs. Precondition: has_own_pids(), since the rank is known by
// its process number.
bool is_running(const node::RankRecord& record);

}  // namespace mh::top
