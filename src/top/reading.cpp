// SPDX-License-Identifier: BSD-3-Clause
#include "top/reading.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "base/clock.hpp"
#include "lend/channel.hpp"
#include "node/node.hpp"

namespace mh::top {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;  // each number is read by itself

// Calls each(channel) for those channels of a rank (lend/channel.hpp) that have a helper thread.
template <class Each>
void each_channel(const mpi::RankArea& area, Each&& each) {
  for (const lend::Channel& channel : area.lendings.channels) {
    if (channel.helper_tid.load(kRelaxed) == 0) return;
    each(channel);
  }
}

std::uint64_t units_received(const mpi::RankArea& area) {
  std::uint64_t units = 0;
  each_channel(area,
               [&](const lend::Channel& channel) { units += channel.units_begun.load(kRelaxed); });
  return units;
}

// ---- Which rank helps which ---------------------------------------------------------------------

void note_helper(RankState& owner, std::uint32_t helper) {
  if (std::ranges::find(owner.helpers, helper) == owner.helpers.end())
    owner.helpers.push_back(helper);
}

void note_lent_cores(const SegmentView& view, std::uint32_t owner, std::vector<RankState>& states) {
  each_channel(view.area(owner), [&](const lend::Channel& channel) {
    const std::uint32_t word = channel.word.load(kRelaxed);
    const std::uint32_t lender = lend::rank_of(lend::lender_of(word));
    if (lend::state_of(word) != lend::ChannelState::lent || lender >= states.size()) return;
    if (lender == owner) return;  // the owner's own spare core
    note_helper(states[owner], lender);
    if (lend::lender_of(word) / node::kMaxRanks != 0) return;  // a worker's spare core
    states[lender].state = State::lends;
    states[lender].helped = owner;
  });
}

void note_claims(const SegmentView& view, std::uint32_t rank, std::vector<RankState>& states) {
  for (const std::atomic<std::uint32_t>& word : view.record(rank).claiming) {
    const std::uint32_t owner = word.load(kRelaxed);
    if (owner == 0 || owner - 1 == rank || owner > states.size()) continue;
    note_helper(states[owner - 1], rank);
    states[rank].state = State::copies;
    states[rank].helped = owner - 1;
  }
}

// ---- Late ranks: those for which a rank waits ---------------------------------------------------

// Returns the number of the last round (a collective by the ranks) that a rank has published on
// `board`, its board for one communicator.
std::uint64_t last_round(const coll::Board& board) {
  std::uint64_t last = 0;
  for (const coll::RoundRecord& record : board.records) {
    last = std::max(last, record.stamp.load(kRelaxed) / coll::kRouteValues);
  }
  return last;
}

// Adds to `state.late` the ranks for which `rank` waits: those that have entered fewer collectives
// than `rank`. count(r) returns the number of collectives that rank r has entered. True if there is
// such a rank.
template <class Count>
bool add_late(RankState& state, std::uint32_t ranks, std::uint32_t rank, Count&& count) {
  const std::uint64_t own = count(rank);
  bool any = false;
  for (std::uint32_t other = 0; other < ranks; ++other) {
    if (other == rank || count(other) >= own) continue;
    any = true;
    if (std::ranges::find(state.late, other) == state.late.end()) state.late.push_back(other);
  }
  return any;
}

// Finds a collective that `rank` has entered and other ranks have not, in a communicator of all
// ranks of the node. The segment does not tell the members of smaller communicators. No rank leaves
// a barrier early, so a rank found in a barrier waits there. A rank may leave another collective
// early, such as the root of a broadcast, and wait elsewhere.
void find_collective(const SegmentView& view, std::uint32_t rank, RankState& state) {
  const auto& entries = view.area(0).arrival_table.entries;
  for (std::uint32_t group = 0; group < mpi::kGroups; ++group) {
    if (entries[group].key == 0 || entries[group].to_leave != view.ranks()) continue;
    const auto line = [&](std::uint32_t of) -> const mpi::ArrivalLines::Line& {
      return view.area(of).arrival_lines.line[group];
    };
    if (add_late(state, view.ranks(), rank,
                 [&](std::uint32_t of) { return line(of).barriers.load(kRelaxed); })) {
      state.at = WaitsAt::barrier;
      return;
    }
    const bool arrived = add_late(state, view.ranks(), rank, [&](std::uint32_t of) {
      return line(of).arrivals.load(kRelaxed);
    });
    const bool in_round =
        group < coll::kBoards && add_late(state, view.ranks(), rank, [&](std::uint32_t of) {
          return last_round(view.area(of).boards[group]);
        });
    if (arrived || in_round) state.at = WaitsAt::collective;
  }
}

}  // namespace

bool has_own_pids(const SegmentView& view) {
  struct stat mine {};
  return ::stat("/proc/self/ns/pid", &mine) == 0 && view.record(0).pid_namespace == mine.st_ino;
}

bool is_running(const node::RankRecord& record) {
  const auto start = node::start_time_of(record.pid);
  if (!start) return true;
  return *start != 0 && (record.start_time == 0 || record.start_time == *start);
}

std::vector<RankState> read_states(const SegmentView& view, bool own_pids) {
  std::vector<RankState> states(view.ranks());
  for (std::uint32_t rank = 0; rank < view.ranks(); ++rank) {
    const bool waits = view.record(rank).waiting_since.load(kRelaxed) != 0;
    const bool inside = view.area(rank).presence.is_inside();
    const bool receives = view.area(rank).jobs.open.load(kRelaxed) != 0;
    states[rank].state = receives ? State::copies
                         : waits  ? State::waits
                         : inside ? State::in_mpi
                                  : State::computes;
  }
  for (std::uint32_t rank = 0; rank < view.ranks(); ++rank) {
    note_claims(view, rank, states);
    note_lent_cores(view, rank, states);
  }
  for (std::uint32_t rank = 0; rank < view.ranks(); ++rank) {
    RankState& state = states[rank];
    if (own_pids && !is_running(view.record(rank))) state.state = State::gone;
    if (state.state == State::waits) find_collective(view, rank, state);
  }
  return states;
}

std::vector<RankNumbers> read_numbers(const SegmentView& view, std::uint64_t now) {
  std::vector<RankNumbers> all(view.ranks());
  for (std::uint32_t rank = 0; rank < view.ranks(); ++rank) {
    const observe::RankCounters& counters = view.area(rank).counters;
    RankNumbers& numbers = all[rank];
    numbers.messages = counters.messages_by_rendezvous.get();
    numbers.bytes = counters.bytes_by_rendezvous.get();
    numbers.copied_bytes = counters.others_bytes.get();
    numbers.units_given = counters.lent_units.get();
    numbers.units_received = units_received(view.area(rank));
    numbers.collectives = counters.collectives_direct.get();
    numbers.help_ticks = counters.help_ticks.get() + counters.lent_ticks.get();
    numbers.own_copy_ticks = counters.own_copy_ticks.get();
    numbers.wait_ticks = counters.wait_ticks.get();
    const std::uint64_t since = view.record(rank).waiting_since.load(kRelaxed);
    if (since != 0 && since < now) numbers.wait_ticks += now - since;
  }
  return all;
}

observe::Totals read_totals(const SegmentView& view, std::uint64_t now) {
  const double ticks_per_s = ticks_per_ns() * 1e9;
  std::vector<observe::RankReport> reports;
  for (std::uint32_t rank = 0; rank < view.ranks(); ++rank) {
    observe::RankReport report = observe::read_counters(view.area(rank).counters, now, ticks_per_s);
    const std::uint64_t since = view.record(rank).waiting_since.load(kRelaxed);
    if (since != 0 && since < now) report.wait_s += static_cast<double>(now - since) / ticks_per_s;
    reports.push_back(report);
  }
  return observe::sum_over_ranks(reports);
}

}  // namespace mh::top
