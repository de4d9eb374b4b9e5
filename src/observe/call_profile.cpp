// SPDX-License-Identifier: BSD-3-Clause
#include "observe/call_profile.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace mh::observe {
namespace {

using nlohmann::ordered_json;

std::vector<CallSums> sum_over_threads(std::span<const ThreadProfile* const> threads,
                                       std::size_t rows) {
  std::vector<CallSums> total(rows);
  for (const ThreadProfile* thread : threads) {
    const std::span<const CallSums> own = thread->all_sums();
    for (std::size_t i = 0; i < std::min(rows, own.size()); ++i) {
      total[i].calls += own[i].calls;
      total[i].bytes += own[i].bytes;
      total[i].ticks += own[i].ticks;
      total[i].transfer_ticks += std::min(own[i].transfer_ticks, own[i].ticks);
    }
  }
  return total;
}

ordered_json bound_of(std::uint32_t size_class) {
  if (size_class >= kSizeBounds.size()) return nullptr;
  return kSizeBounds[size_class];
}

ordered_json to_json(const ProfileRow& row) {
  return {{"rank", row.world_rank},
          {"call", row.call},
          {"bytes_at_most", bound_of(row.size_class)},
          {"contiguous", row.noncontiguous == 0},
          {"calls", row.calls},
          {"bytes", row.bytes},
          {"seconds", row.seconds},
          {"transfer_s", row.transfer_s}};
}

ordered_json to_json(const ProfiledRank& rank, std::span<const ProfileRow> rows) {
  double inside = 0;
  double transfer = 0;
  for (const ProfileRow& row : rows) {
    if (row.world_rank != rank.world_rank) continue;
    inside += row.seconds;
    transfer += row.transfer_s;
  }
  return {{"rank", rank.world_rank},       {"node", rank.node}, {"init_s", rank.init_s},
          {"elapsed_s", rank.elapsed_s},   {"mpi_s", inside},   {"transfer_s", transfer},
          {"waiting_s", inside - transfer}};
}

}  // namespace

std::size_t size_class(std::uint64_t bytes) {
  std::size_t found = 0;
  while (found < kSizeBounds.size() && bytes > kSizeBounds[found]) ++found;
  return found;
}

std::vector<ProfileRow> profile_rows(std::span<const ThreadProfile* const> threads,
                                     std::span<const char* const> names, std::uint32_t world_rank,
                                     double ticks_per_s) {
  const auto total = sum_over_threads(threads, names.size() * ThreadProfile::kRows);
  std::vector<ProfileRow> rows;
  for (std::size_t i = 0; i < total.size(); ++i) {
    if (total[i].calls == 0) continue;
    ProfileRow row{};
    std::snprintf(row.call, sizeof row.call, "%s", names[i / ThreadProfile::kRows]);
    row.world_rank = world_rank;
    row.size_class = static_cast<std::uint32_t>(i % ThreadProfile::kRows / 2);
    row.noncontiguous = static_cast<std::uint32_t>(i % 2);
    row.calls = total[i].calls;
    row.bytes = total[i].bytes;
    row.seconds = static_cast<double>(total[i].ticks) / ticks_per_s;
    row.transfer_s = static_cast<double>(total[i].transfer_ticks) / ticks_per_s;
    rows.push_back(row);
  }
  return rows;
}

std::string render_profile(std::span<const ProfiledRank> ranks, std::span<const ProfileRow> rows,
                           std::span<const LateRank> late, const std::string& summary) {
  ordered_json json = {{"format", "manyhands-profile-1"}};
  json["ranks"] = ordered_json::array();
  for (const ProfiledRank& rank : ranks) json["ranks"].push_back(to_json(rank, rows));
  json["calls"] = ordered_json::array();
  for (const ProfileRow& row : rows) json["calls"].push_back(to_json(row));
  json["late"] = ordered_json::array();
  for (const LateRank& each : late) {
    json["late"].push_back(
        {{"rank", each.late}, {"waiter", each.waiter}, {"seconds", each.seconds}});
  }
  json["summary"] = summary.empty() ? ordered_json(nullptr) : ordered_json::parse(summary);
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace mh::observe
