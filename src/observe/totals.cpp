// SPDX-License-Identifier: BSD-3-Clause
#include "observe/totals.hpp"

#include <algorithm>

namespace mh::observe {
namespace {

double useful_s(const RankReport& rank) { return std::max(0.0, rank.elapsed_s - rank.wait_s); }

// POP over `work_s` (one value a rank) in a run of `elapsed_s`. A run without any time is fully
// efficient.
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

RankReport read_counters(const Counters& counters, std::uint64_t now_ticks, double ticks_per_s) {
  const auto seconds = [&](std::uint64_t t) { return static_cast<double>(t) / ticks_per_s; };
  const std::uint64_t start = counters.start_tick.get();
  RankReport report{};
  report.elapsed_s = start == 0 || now_ticks < start ? 0 : seconds(now_ticks - start);
  report.wait_s = seconds(counters.wait_ticks.get());
  report.help_s = seconds(counters.help_ticks.get());
  report.own_copy_s = seconds(counters.own_copy_ticks.get());
  report.lent_s = seconds(counters.lent_ticks.get());
  report.loops.units_lent = counters.lent_units.get();
  report.messages_described = counters.messages_described.get();
  report.bytes_described = counters.bytes_described.get();
  report.resends = counters.resends.get();
  for (std::size_t i = 0; i < kFallbacks; ++i) report.fallbacks[i] = counters.fallbacks[i].get();
  report.own_chunks = counters.own_chunks_received.get() + counters.own_chunks_sent.get();
  report.own_bytes = counters.own_bytes_received.get() + counters.own_bytes_sent.get();
  report.others_chunks = counters.others_chunks.get();
  report.others_bytes = counters.others_bytes.get();
  report.lent_chunks = counters.lent_chunks.get();
  report.lent_bytes = counters.lent_bytes.get();
  report.bytes_packed = counters.bytes_packed.get();
  report.messages_exchanged = counters.messages_exchanged.get();
  report.waits = counters.waits.get();
  report.collectives_gated = counters.collectives_gated.get();
  report.windows_ours = counters.windows_ours.get();
  report.windows_left = counters.windows_left.get();
  report.one_sided_operations = counters.one_sided_operations.get();
  return report;
}

Totals total(std::span<const RankReport> ranks) {
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
    sum.messages_described += rank.messages_described;
    sum.bytes_described += rank.bytes_described;
    sum.resends += rank.resends;
    for (std::size_t i = 0; i < kFallbacks; ++i) sum.fallbacks[i] += rank.fallbacks[i];
    sum.own_chunks += rank.own_chunks;
    sum.own_bytes += rank.own_bytes;
    sum.others_chunks += rank.others_chunks;
    sum.others_bytes += rank.others_bytes;
    sum.lent_chunks += rank.lent_chunks;
    sum.lent_bytes += rank.lent_bytes;
    sum.messages_exchanged += rank.messages_exchanged;
    sum.bytes_packed += rank.bytes_packed;
    sum.waits += rank.waits;
    sum.collectives_gated += rank.collectives_gated;
    sum.windows_ours += rank.windows_ours;
    sum.windows_left += rank.windows_left;
    sum.one_sided_operations += rank.one_sided_operations;
    sum.heap_peak += rank.heap_peak;
    sum.heap_kept += rank.heap_kept;
    add_to(sum.loops, rank.loops);
  }
  sum.without_help = efficiency(ranks, sum.elapsed_s, useful_s);
  sum.with_help = efficiency(ranks, sum.elapsed_s, [](const RankReport& rank) {
    return useful_s(rank) + rank.help_s + rank.lent_s;
  });
  return sum;
}

}  // namespace mh::observe
