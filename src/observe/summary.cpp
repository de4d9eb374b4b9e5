// SPDX-License-Identifier: BSD-3-Clause
#include "observe/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace mh::observe {
namespace {

constexpr std::size_t kTopPairs = 5;
constexpr std::size_t kMostLines = 20;

// The reason why other ranks cannot help with the loops of an OpenMP region, and the change that
// the author of the program can make. Words and advice suit a terminal of 80 columns.
struct ObstacleText {
  std::string_view key;
  std::string_view words;
  std::string_view advice;
};
// The texts stand in the order of openmp::Obstacle, without its first value (none).
constexpr std::array<ObstacleText, kObstacles> kObstacleTexts = {{
    {"no_loop", "static or no loop",
     "static: write schedule(runtime) and run with\n"
     "OMP_SCHEDULE=dynamic, or mark it: #pragma ws for"},
    {"several_loops", "several loops", "several loops: give each a parallel region of its own"},
    {"thread_number", "calls for the thread number",
     "thread number: use reduction or private instead"},
    {"barrier", "a barrier", "barrier: end the parallel region there, begin another"},
    {"single", "single or sections", "single, sections, ordered: move out of the region"},
    {"tasks", "tasks", "tasks: use a loop with schedule(dynamic) instead"},
    {"nested", "nested regions", "nested: use one parallel loop, perhaps with collapse"},
    {"mpi", "MPI calls", "MPI calls: run with MH_THREAD_LEVEL=multiple"},
    {"collectives", "collective or one-sided MPI calls",
     "collective and one-sided calls: move out of the loop"},
    {"other_calls", "other OpenMP calls", "other OpenMP calls: move out of the region"},
    {"unknown_code", "calls that cannot be followed",
     "calls through pointers: use direct calls instead"},
    {"thread_data", "thread-local data",
     "thread-local data: name the region in MH_OPENMP_ONLY\n"
     "if its results do not depend on such data"},
    {"waiting", "threads that wait for one another",
     "threads that wait: use barriers instead of flags"},
    {"by_user", "excluded by the user", ""},
}};
constexpr std::uint32_t kByUser = kObstacles - 1;
constexpr std::size_t kTopRegions = 3;
constexpr double kNoticeable = 0.05;  // fraction of a rank's run; smaller parts get no line

// Formats a size as 1234567 -> "1.23 MB", in decimal units, as bandwidths are given.
std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.3g} {}", value, kUnits[unit]);
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string_view plural(std::uint64_t count) { return count == 1 ? "" : "s"; }

std::vector<HelpedBytes> top_pairs(std::span<const HelpedBytes> helped, std::size_t most) {
  std::vector<HelpedBytes> pairs(helped.begin(), helped.end());
  std::erase_if(pairs, [](const HelpedBytes& pair) { return pair.bytes == 0; });
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const HelpedBytes& a, const HelpedBytes& b) { return a.bytes > b.bytes; });
  pairs.resize(std::min({pairs.size(), kTopPairs, most}));
  return pairs;
}

// Returns the number of ranks on the node that has most ranks.
std::size_t largest_node(std::span<const RankReport> ranks) {
  std::vector<std::size_t> sizes;
  for (const RankReport& rank : ranks) {
    if (rank.node >= sizes.size()) sizes.resize(rank.node + 1);
    ++sizes[rank.node];
  }
  return sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
}

std::string why_nobody(std::span<const RankReport> ranks, const Totals& sum,
                       const std::string& why_not) {
  if (!why_not.empty()) return why_not;
  if (sum.messages_by_rendezvous == 0 && sum.messages_without_slot > 0) {
    return "large messages went by the MPI library: the send table was full";
  }
  if (sum.messages_by_rendezvous == 0 && sum.messages_ended > 0)
    return "rendezvous ended on the node (docs/how-it-works.md says why)";
  if (largest_node(ranks) < 2) return "no two ranks are on one node";
  if (sum.messages_by_rendezvous == 0 && sum.messages_exchanged > 0)
    return "busy ranks exchanged all large messages, by the MPI library";
  if (sum.messages_by_rendezvous == 0 && sum.windows_ours > 0)
    return "no message reached MH_THRESHOLD, no one-sided operation was large";
  if (sum.messages_by_rendezvous == 0)
    return "no message between ranks of a node reached MH_THRESHOLD";
  if (largest_node(ranks) < 3)
    return "no node has a third rank; senders and receivers copied together";
  return "no third rank was waiting while there was a chunk left";
}

class Lines {
 public:
  template <class... T>
  void add(fmt::format_string<T...> format, T&&... args) {
    constexpr std::size_t kColumns = 100;
    std::string line = "manyhands: ";
    fmt::format_to(std::back_inserter(line), format, std::forward<T>(args)...);
    if (line.size() > kColumns) line.replace(kColumns - 3, std::string::npos, "...");
    text_ += line + '\n';
    ++count_;
  }
  // The number of lines that may still be added to the summary.
  [[nodiscard]] std::size_t left() const { return kMostLines - std::min(count_, kMostLines); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::size_t count_ = 0;
};

void add_times(Lines& lines, const Totals& sum) {
  const double all = sum.useful_s + sum.wait_s + sum.own_copy_s + sum.help_s;
  lines.add("{} rank{} on {} node{}, {:.3f} s", sum.ranks, plural(sum.ranks), sum.nodes,
            plural(sum.nodes), sum.elapsed_s);
  lines.add(
      "time           useful {:.1f} %, waiting {:.1f} %, own messages {:.1f} %, helping {:.1f} %",
      percent(sum.useful_s, all), percent(sum.wait_s, all), percent(sum.own_copy_s, all),
      percent(sum.help_s, all));
  lines.add("efficiency     {:<22}{:<22}{}", "parallel", "load balance", "communication");
  const auto row = [&](std::string_view name, const Efficiency& e) {
    lines.add("  {:<13}{:<22.3f}{:<22.3f}{:.3f}", name, e.parallel, e.load_balance,
              e.communication);
  };
  row("useful", sum.without_help);
  row("and helping", sum.with_help);
}

void add_messages(Lines& lines, const Totals& sum) {
  lines.add("shared         {} message{}, {}; sent again {}", sum.messages_by_rendezvous,
            plural(sum.messages_by_rendezvous), size_text(sum.bytes_by_rendezvous), sum.resends);
  const auto copied =
      static_cast<double>(sum.own_bytes + sum.others_bytes + sum.bytes_on_lent_cores);
  const auto row = [&](std::string_view who, std::uint64_t bytes, std::uint64_t chunks) {
    lines.add("{:<15}{} in {} chunk{} ({:.0f} %)", who, size_text(bytes), chunks, plural(chunks),
              percent(static_cast<double>(bytes), copied));
  };
  row("by both ends", sum.own_bytes, sum.own_chunks);
  row("by others", sum.others_bytes, sum.others_chunks);
  if (sum.chunks_on_lent_cores != 0)
    row("on lent cores", sum.bytes_on_lent_cores, sum.chunks_on_lent_cores);
  if (sum.heap_peak != 0) {
    lines.add("shared heap    {} at most, {} kept for later blocks; {} of messages outside",
              size_text(sum.heap_peak), size_text(sum.heap_kept),
              size_text(sum.bytes_outside_heap));
  }
  lines.add("waits          {}; collectives after an arrival barrier {}", sum.waits,
            sum.collectives_with_arrival_barrier);
  if (sum.collectives_direct != 0) {
    lines.add("collectives    {} carried out by the ranks themselves", sum.collectives_direct);
  }
  if (sum.windows_ours + sum.windows_left != 0) {
    lines.add("one-sided      {} operation{} on {} window{}; {} left to the MPI library",
              sum.one_sided_operations, plural(sum.one_sided_operations), sum.windows_ours,
              plural(sum.windows_ours), sum.windows_left);
  }
}

std::string virtual_text(const Loops& loops) {
  if (loops.regions_virtual == 0) return "";
  return fmt::format(" ({} static)", loops.regions_virtual);
}

void add_loops(Lines& lines, const Totals& sum) {
  const Loops& loops = sum.loops;
  std::string reasons;
  std::uint64_t excluded = 0;
  for (std::size_t i = 0; i < kObstacles; ++i) {
    if (loops.regions_excluded[i] == 0) continue;
    excluded += loops.regions_excluded[i];
    fmt::format_to(std::back_inserter(reasons), "{}{}", reasons.empty() ? "" : ", ",
                   kObstacleTexts[i].words);
  }
  if (loops.regions_shared + excluded == 0) return;
  lines.add("loops          {} shared{}, open to helpers {} time{}, {} unit{} done by helpers",
            loops.regions_shared, virtual_text(loops), loops.exposures, plural(loops.exposures),
            loops.units_by_others, plural(loops.units_by_others));
  if (excluded > 0) lines.add("not shared     {} ({})", excluded, reasons);
}

// ---- OpenMP regions whose loops are not shared --------------------------------------------------

// An OpenMP region with whose loops other ranks cannot help, merged over all ranks that have
// executed it.
struct MergedRegion {
  UnsharedRegion most;  // of the rank that spends the largest part of its run in the region
  double seconds;       // of all ranks
  bool ambiguous;       // another region has the same name
};

bool is_same(const UnsharedRegion& a, const UnsharedRegion& b) {
  return std::string_view(a.at) == b.at && std::string_view(a.name) == b.name;
}

// Merges the unshared OpenMP regions of all ranks: one entry for each region, known by its address
// and name. Sorted by the largest part of its run time that any rank spent in the region, the
// largest first.
std::vector<MergedRegion> merge_regions(std::span<const UnsharedRegion> left_out) {
  std::vector<MergedRegion> all;
  for (const UnsharedRegion& region : left_out) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const MergedRegion& known) {
      return is_same(known.most, region);
    });
    if (same == all.end()) {
      all.push_back({.most = region, .seconds = region.seconds, .ambiguous = false});
      continue;
    }
    same->seconds += region.seconds;
    if (region.part > same->most.part) same->most = region;
  }
  for (MergedRegion& one : all) {
    const std::string_view name = one.most.name;
    one.ambiguous = std::count_if(all.begin(), all.end(), [&](const MergedRegion& other) {
                      return name == other.most.name;
                    }) > 1;
  }
  std::stable_sort(all.begin(), all.end(), [](const MergedRegion& a, const MergedRegion& b) {
    return a.most.part > b.most.part;
  });
  return all;
}

std::string source_text(const MergedRegion& region) {
  if (region.most.source[0] != 0) return fmt::format(" ({})", region.most.source);
  const bool told = std::string_view(region.most.name) == region.most.at;
  return region.ambiguous && !told ? fmt::format(" ({})", region.most.at) : "";
}

bool is_worth_a_line(const MergedRegion& region) {
  return region.most.part >= kNoticeable && region.most.obstacle != kByUser;
}

// Calls each(line) for every line of `text`.
template <class Each>
void each_line(std::string_view text, Each&& each) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    each(text.substr(at, end - at));
    at = end + 1;
  }
}

// Adds to the summary how OpenMP regions can be changed so that their loops are shared. `met`: the
// obstacles for which advice is due. Advice is left out unless `reserved` lines stay free after it.
void add_advice(Lines& lines, const std::array<bool, kObstacles>& met, std::size_t reserved) {
  std::string_view label = "to share them";
  for (std::size_t i = 0; i < kObstacles; ++i) {
    const std::string_view advice = met[i] ? kObstacleTexts[i].advice : "";
    const auto needed =
        static_cast<std::size_t>(std::count(advice.begin(), advice.end(), '\n')) + 1;
    if (advice.empty() || lines.left() < needed + reserved) continue;
    each_line(advice, [&](std::string_view line) {
      lines.add("{:<15}{}", label, line);
      label = "";
    });
  }
}

void add_hot_regions(Lines& lines, std::vector<MergedRegion> regions, std::size_t reserved) {
  std::erase_if(regions, [](const MergedRegion& region) { return !is_worth_a_line(region); });
  regions.resize(std::min(regions.size(), kTopRegions));
  std::array<bool, kObstacles> met{};
  for (const MergedRegion& region : regions) {
    const std::string who =
        fmt::format("  rank {} {:.0f} %", region.most.world_rank, 100 * region.most.part);
    lines.add("{:<15}{}{}: {}", who, region.most.name, source_text(region),
              kObstacleTexts[region.most.obstacle].words);
    met[region.most.obstacle] = true;
  }
  add_advice(lines, met, reserved);
}

// Returns the names in the user's lists of OpenMP regions (MH_OPENMP_EXCLUDE, MH_OPENMP_ONLY) that
// match no region of any rank. `names`: all names of the lists.
std::vector<std::string> unused_names(const Loops& sum, std::span<const std::string> names) {
  std::vector<std::string> unused;
  if (sum.sharing == 0) return unused;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 64); ++i) {
    if ((sum.names_used >> i & 1U) == 0) unused.push_back(names[i]);
  }
  return unused;
}

void add_regions(Lines& lines, const Totals& sum, const RegionReport& regions) {
  constexpr std::size_t kForHelp = 2;  // lines of add_help()
  const std::vector<std::string> unused = unused_names(sum.loops, regions.names);
  add_hot_regions(lines, merge_regions(regions.left_out), kForHelp + (unused.empty() ? 0 : 1));
  if (!unused.empty())
    lines.add("no such region {} (MH_OPENMP_EXCLUDE, _ONLY)", fmt::join(unused, ", "));
}

void add_help(Lines& lines, std::span<const RankReport> ranks, std::span<const HelpedBytes> helped,
              const Totals& sum, const std::string& why_not) {
  if (sum.others_bytes == 0 && sum.loops.units_lent == 0) {
    lines.add("helped         nobody: {}", why_nobody(ranks, sum, why_not));
    return;
  }
  lines.add("helped         {:.3f} s of waiting turned into work for others", sum.help_s);
  const std::size_t space = lines.left() - std::min<std::size_t>(lines.left(), 1);
  for (const HelpedBytes& pair : top_pairs(helped, space)) {
    lines.add("  rank {} copied {} for rank {}", pair.helper, size_text(pair.bytes), pair.victim);
  }
  if (!why_not.empty()) lines.add("not everywhere {}", why_not);
}

nlohmann::ordered_json to_json(const Efficiency& e) {
  return {{"parallel", e.parallel},
          {"load_balance", e.load_balance},
          {"communication", e.communication}};
}

void put_counts(nlohmann::ordered_json& json, const RankCounts& counts) {
  for (const CountRow& row : kCounts) json[row.key] = counts.*row.count;
}

nlohmann::ordered_json to_json(const Loops& loops) {
  nlohmann::ordered_json excluded = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kObstacles; ++i) {
    excluded[std::string(kObstacleTexts[i].key)] = loops.regions_excluded[i];
  }
  return {{"regions_shared", loops.regions_shared},
          {"regions_static", loops.regions_virtual},
          {"regions_excluded", excluded},
          {"exposures", loops.exposures},
          {"units_by_others", loops.units_by_others},
          {"units_waited", loops.units_waited},
          {"units_lent", loops.units_lent}};
}

nlohmann::ordered_json to_json(const RankReport& rank) {
  nlohmann::ordered_json json = {{"rank", rank.world_rank},       {"node", rank.node},
                                 {"helping", rank.helping != 0},  {"elapsed_s", rank.elapsed_s},
                                 {"wait_s", rank.wait_s},         {"help_s", rank.help_s},
                                 {"own_copy_s", rank.own_copy_s}, {"lent_s", rank.lent_s}};
  put_counts(json, rank);
  json["loops"] = to_json(rank.loops);
  return json;
}

nlohmann::ordered_json to_json(const Totals& sum) {
  nlohmann::ordered_json json = {{"ranks", sum.ranks},
                                 {"nodes", sum.nodes},
                                 {"elapsed_s", sum.elapsed_s},
                                 {"useful_s", sum.useful_s},
                                 {"wait_s", sum.wait_s},
                                 {"help_s", sum.help_s},
                                 {"own_copy_s", sum.own_copy_s},
                                 {"efficiency", to_json(sum.without_help)},
                                 {"efficiency_with_help", to_json(sum.with_help)}};
  put_counts(json, sum);
  json["loops"] = to_json(sum.loops);
  return json;
}

// Joins the lines of a piece of advice by spaces, for JSON.
std::string in_one_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

nlohmann::ordered_json to_json(const MergedRegion& region) {
  const ObstacleText& text = kObstacleTexts[region.most.obstacle];
  return {{"region", region.most.name},         {"at", region.most.at},
          {"source", region.most.source},       {"reason", text.key},
          {"advice", in_one_line(text.advice)}, {"time_s", region.seconds},
          {"rank", region.most.world_rank},     {"part_of_rank", region.most.part}};
}

}  // namespace

std::string render_summary(std::span<const RankReport> ranks, std::span<const HelpedBytes> helped,
                           const std::string& why_not, const RegionReport& regions) {
  const Totals sum = sum_over_ranks(ranks);
  Lines lines;
  add_times(lines, sum);
  add_messages(lines, sum);
  if (sum.messages_without_slot != 0) {
    lines.add("through MPI    {} (send table full)", sum.messages_without_slot);
  }
  if (sum.messages_ended != 0) {
    lines.add("through MPI    {} (rendezvous has ended on the node)", sum.messages_ended);
  }
  add_loops(lines, sum);
  add_regions(lines, sum, regions);
  add_help(lines, ranks, helped, sum, why_not);
  return lines.take();
}

std::string render_json(std::span<const RankReport> ranks, std::span<const HelpedBytes> helped,
                        const std::string& why_not, const RegionReport& regions) {
  const Totals sum = sum_over_ranks(ranks);
  nlohmann::ordered_json json = {{"format", "manyhands-summary-1"}, {"total", to_json(sum)}};
  json["not_helping_because"] = why_not;
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RankReport& rank : ranks) json["ranks"].push_back(to_json(rank));
  json["helped"] = nlohmann::ordered_json::array();
  for (const HelpedBytes& pair : helped) {
    if (pair.bytes == 0) continue;
    json["helped"].push_back(
        {{"helper", pair.helper}, {"victim", pair.victim}, {"bytes", pair.bytes}});
  }
  json["not_shared"] = nlohmann::ordered_json::array();
  for (const MergedRegion& region : merge_regions(regions.left_out))
    json["not_shared"].push_back(to_json(region));
  json["no_such_region"] = unused_names(sum.loops, regions.names);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace mh::observe
