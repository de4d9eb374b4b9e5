// SPDX-License-Identifier: BSD-3-Clause
#include "top/output.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/clock.hpp"

namespace mh::top {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, kStates> kStateWords = {"computes", "in MPI", "waits",
                                                               "copies",   "lends",  "gone"};

Json at_of(WaitsAt at) {
  if (at == WaitsAt::unknown) return nullptr;
  return at == WaitsAt::barrier ? "barrier" : "collective";
}

Json shares_of(const RankInterval& rank, std::uint32_t samples) {
  Json shares = Json::object();
  for (std::size_t i = 0; i < kStates; ++i) {
    if (rank.samples[i] != 0)
      shares[std::string(kStateWords[i])] = static_cast<double>(rank.samples[i]) / samples;
  }
  return shares;
}

// Returns the rank in MPI_COMM_WORLD of `rank`, which is numbered within the node.
std::uint32_t world_rank(const SegmentView& view, std::uint32_t rank) {
  return view.record(rank).world_rank;
}

Json world_ranks(const SegmentView& view, const std::vector<HelpPartner>& all) {
  Json ranks = Json::array();
  for (const HelpPartner& one : all) ranks.push_back(world_rank(view, one.rank));
  return ranks;
}

Json world_ranks(const SegmentView& view, const std::vector<std::uint32_t>& all) {
  Json ranks = Json::array();
  for (const std::uint32_t rank : all) ranks.push_back(world_rank(view, rank));
  return ranks;
}

Json rates_of(const RankNumbers& numbers, double seconds) {
  const auto rate = [&](std::uint64_t count) { return static_cast<double>(count) / seconds; };
  return {{"messages", rate(numbers.messages)},
          {"bytes", rate(numbers.bytes)},
          {"copied_bytes", rate(numbers.copied_bytes)},
          {"units_given", rate(numbers.units_given)},
          {"units_received", rate(numbers.units_received)},
          {"collectives", rate(numbers.collectives)}};
}

Json json_of_rank(const SegmentView& view, const Interval& interval, std::uint32_t rank) {
  const RankInterval& of = interval.ranks[rank];
  return {{"rank", world_rank(view, rank)},
          {"pid", view.record(rank).pid},
          {"state", kStateWords[static_cast<std::size_t>(of.state)]},
          {"states", shares_of(of, interval.samples)},
          {"at", at_of(of.at)},
          {"late", world_ranks(view, of.late)},
          {"helps", world_ranks(view, of.helps)},
          {"helped_by", world_ranks(view, of.helped_by)},
          {"waiting", of.waiting},
          {"helping", of.helping},
          {"per_s", rates_of(of.numbers, interval.seconds)}};
}

double age_s(const SegmentView& view) {
  const std::uint64_t start = view.area(0).counters.start_tick.get();
  return start == 0 ? 0 : ns_from_ticks(ticks() - start) / 1e9;
}

}  // namespace

std::string line_of_job(const SegmentView& view, const ProcessDescriptor& descriptor) {
  Json json = {{"pid", descriptor.pid}, {"fd", descriptor.fd}, {"file", descriptor.file()}};
  if (!view.is_open()) {
    json["refused"] = view.why();
    return json.dump();
  }
  json["age_s"] = age_s(view);
  json["pids"] = Json::array();
  json["ranks"] = Json::array();
  for (std::uint32_t rank = 0; rank < view.ranks(); ++rank) {
    json["pids"].push_back(view.record(rank).pid);
    json["ranks"].push_back(world_rank(view, rank));
  }
  return json.dump();
}

std::string line_of_interval(const SegmentView& view, const Interval& interval,
                             std::optional<std::uint64_t> heap_bytes) {
  Json json = {{"format", "manyhands-top-1"},
               {"seconds", interval.seconds},
               {"age_s", age_s(view)},
               {"efficiency", interval.so_far.without_help.parallel},
               {"efficiency_with_help", interval.so_far.with_help.parallel},
               {"heap_bytes", heap_bytes ? Json(*heap_bytes) : Json(nullptr)}};
  json["ranks"] = Json::array();
  for (std::uint32_t rank = 0; rank < view.ranks(); ++rank)
    json["ranks"].push_back(json_of_rank(view, interval, rank));
  return json.dump();
}

std::string line_of_end(const std::string& why) { return Json({{"ended", why}}).dump(); }

}  // namespace mh::top
