// SPDX-License-Identifier: BSD-3-Clause
#include "observe/totals.hpp"

#include <algorithm>

namespace mh::observe {
namespace {

double useful_s(const RankReport& rank) { return std::max(0.0, rank.elapsed_s - rank.wait_s); }

// Computes the POP efficiencies (totals.hpp) of a run that took `elapsed_s` seconds, in which
// work_s(rank) gives the seconds of work of a rank. A run that took no time, or in which no rank
// worked, counts as fully efficient.
template <class WorkOf>
Efficiency efficiency(std::span<const RankReport> ranks, double elapsed_s, WorkOf work_s) {
  double sum = 0;
  double most = 0;
  for (const RankReport& rank : ranks) {
    sum += work_s(rank);
    most = std::max(most, work_s(rank));
  }
  if (elapsed_s <= 0 || most <= 0) return {1, 1, 1};
  const double mean = sum / static_cast<double>(ranks.size());
  return {mean / elapsed_s, mean / most, most / elapsed_s};
}

void add_to(Loops& sum, const Loops& loops) {
  sum.regions_shared += loops.regions_shared;
  sum.regions_virtual += loops.regions_virtual;
  for (std::size_t i = 0; i < kObstacles; ++i) {
    sum.regions_excluded[i] += loops.regions_excluded[i];
  }
  sum.exposures += loops.exposures;
  sum.units_by_others += loops.units_by_others;
  sum.units_waited += loops.units_waited;
  sum.units_lent += loops.units_lent;
  sum.names_used |= loops.names_used;
  sum.sharing |= loops.sharing;
}

}  // namespace

RankReport read_counters(const RankCounters& counters, std::uint64_t now_ticks,
                         double ticks_per_s) {
  const auto seconds = [&](std::uint64_t t) { return static_cast<double>(t) / ticks_per_s; };
  const std::uint64_t start = counters.start_tick.get();
  RankReport report{};
  report.elapsed_s = start == 0 || now_ticks < start ? 0 : seconds(now_ticks - start);
  report.wait_s = seconds(counters.wait_ticks.get());
  report.help_s = seconds(counters.help_ticks.get());
  report.own_copy_s = seconds(counters.own_copy_ticks.get());
  report.lent_s = seconds(counters.lent_ticks.get());
  report.loops.units_lent = counters.lent_units.get();
  for (const CountRow& row : kCounts) {
    if (row.counter != nullptr) report.*row.count = (counters.*row.counter).get();
  }
  report.own_chunks = counters.own_chunks_received.get() + counters.own_chunks_sent.get();
  report.own_bytes = counters.own_bytes_received.get() + counters.own_bytes_sent.get();
  return report;
}

Totals sum_over_ranks(std::span<const RankReport> ranks) {
  Totals sum{};
  sum.ranks = static_cast<std::uint32_t>(ranks.size());
  for (const RankReport& rank : ranks) {
    sum.nodes = std::max(sum.nodes, rank.node + 1);
    sum.elapsed_s = std::max(sum.elapsed_s, rank.elapsed_s);
    sum.useful_s += useful_s(rank);
    const double helping = rank.help_s + rank.lent_s;
    sum.wait_s += std::max(0.0, rank.wait_s - helping - rank.own_copy_s);
    sum.help_s += helping;
    sum.own_copy_s += rank.own_copy_s;
    for (const CountRow& row : kCounts) sum.*row.count += rank.*row.count;
    add_to(sum.loops, rank.loops);
  }
  sum.without_help = efficiency(ranks, sum.elapsed_s, useful_s);
  sum.with_help = efficiency(ranks, sum.elapsed_s, [](const RankReport& rank) {
    return useful_s(rank) + rank.help_s + rank.lent_s;
  });
  return sum;
}

}  // namespace mh::observe
