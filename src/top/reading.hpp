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

// The names of these states, for people, are in output.cpp.
enum class State : std::uint8_t { computes, in_mpi, waits, copies, lends, gone };
inline constexpr std::size_t kStates = 6;

// The kind of call in which a rank waits, as far as the segment tells.
enum class WaitsAt : std::uint8_t { unknown, barrier, collective };

inline constexpr std::uint32_t kNobody = ~0U;

struct RankState {
  State state = State::computes;
  // The rank of the node for which this rank copies, or to which it lends. kNobody: this rank
  // copies a message that it receives.
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

// The state of each rank. `own_pids`: the result of has_own_pids(). If false, the ranks' process
// numbers mean nothing here, and no rank is reported as gone.
std::vector<RankState> read_states(const SegmentView& view, bool own_pids);
// The counts of each rank since the start of the MPI job. `now`: ticks, the end of waits under way.
std::vector<RankNumbers> read_numbers(const SegmentView& view, std::uint64_t now);

// The work of the ranks since the start of the job, and the age of the job in seconds.
observe::Totals read_totals(const SegmentView& view, std::uint64_t now);

// True if process numbers in the segment are those that this process sees.
bool has_own_pids(const SegmentView& view);
// True while the rank's process runs. With has_own_pids() only.
bool is_running(const node::RankRecord& record);

}  // namespace mh::top
