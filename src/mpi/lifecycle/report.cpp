// SPDX-License-Identifier: BSD-3-Clause
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <type_traits>
#include <vector>

#include "base/clock.hpp"
#include "base/say.hpp"
#include "base/settings.hpp"
#include "mpi/job/agreement.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/lifecycle/parts.hpp"
#include "mpi/next.hpp"
#include "mpi/profile/profile.hpp"
#include "observe/summary.hpp"
#include "openmp/sharing.hpp"

namespace mh::mpi {
namespace {

using observe::HelpedBytes;
using observe::RankReport;

// The reports that are written at the end. Rank 0's settings decide for all ranks.
struct Wishes {
  bool summary;
  bool profile;
};
Wishes agree_on_wishes() {
  Wishes wishes{.summary = settings().summary || !settings().summary_json.empty(),
                .profile = profile::is_wanted()};
  agreement::broadcast(wishes, 0, MPI_COMM_WORLD);
  return wishes;
}

void own_loops(observe::Loops& loops) {
  // The report counts the regions that are not shared by the reason, their Obstacle. It has no
  // count for Obstacle::none, the first value.
  static_assert(openmp::kObstacles == observe::kObstacles + 1);
  const openmp::SharingReport report = openmp::sharing_report();
  loops.regions_shared = report.shared;
  loops.regions_virtual = report.by_virtual_threads;
  std::copy_n(&report.excluded[1], observe::kObstacles, loops.regions_excluded);
  loops.exposures = report.exposures;
  loops.units_by_others = report.units;
  if (services.workers) loops.units_lent += services.workers->units();
  loops.units_waited = report.units_waited;
  loops.names_used = openmp::lists.used();
  loops.sharing = report.on ? 1 : 0;
}

template <std::size_t bytes>
void copy_text(char (&to)[bytes], const std::string& text) {
  std::snprintf(to, bytes, "%s", text.c_str());
}

std::vector<observe::UnsharedRegion> own_regions(double elapsed_s) {
  constexpr std::size_t kMost = 32;
  std::vector<observe::UnsharedRegion> rows;
  for (const openmp::ExcludedRegion& hot : openmp::hottest(kMost)) {
    observe::UnsharedRegion row{};
    row.world_rank = static_cast<std::uint32_t>(config.world_rank);
    row.obstacle = static_cast<std::uint32_t>(hot.obstacle) - 1;
    row.seconds = hot.seconds;
    row.part = elapsed_s > 0 ? std::min(hot.seconds / elapsed_s, 1.0) : 0;
    copy_text(row.name, hot.name.shown());
    copy_text(row.at, hot.name.at);
    copy_text(row.source, hot.name.source);
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::string> listed_names() {
  std::vector<std::string> names = settings().openmp_exclude;
  const std::vector<std::string>& only = settings().openmp_only;
  names.insert(names.end(), only.begin(), only.end());
  return names;
}

RankReport own_report() {
  RankReport mine{};
  if (switches.active)
    mine = observe::read_counters(services.counters(), ticks(), ticks_per_ns() * 1e9);
  own_loops(mine.loops);
  if (const auto heap = heaps::stats()) {
    mine.heap_peak = heap->peak;
    mine.heap_kept = heap->kept;
  }
  mine.world_rank = static_cast<std::uint32_t>(config.world_rank);
  mine.helping = config.rendezvous ? 1 : 0;
  // The node's number in the report is the first world rank on the node; rank 0 renumbers the nodes
  // later.
  mine.node = switches.active ? services.node->record(0).world_rank
                              : static_cast<std::uint32_t>(config.world_rank);
  return mine;
}

std::vector<HelpedBytes> own_help() {
  std::vector<HelpedBytes> rows;
  if (!switches.active) return rows;
  const auto* helped =
      reinterpret_cast<const observe::Counter*>(services.node->area(config.me) + sizeof(RankArea));
  for (std::uint32_t victim = 0; victim < config.ranks; ++victim) {
    if (helped[victim].get() == 0) continue;
    rows.push_back({.helper = static_cast<std::uint32_t>(config.world_rank),
                    .victim = services.node->record(victim).world_rank,
                    .bytes = helped[victim].get()});
  }
  return rows;
}

void number_nodes(std::vector<RankReport>& reports) {
  std::vector<std::uint32_t> first;
  for (RankReport& report : reports) {
    const std::uint32_t name = report.node;
    const auto at = std::find(first.begin(), first.end(), name);
    report.node = static_cast<std::uint32_t>(at - first.begin());
    if (at == first.end()) first.push_back(name);
  }
}

void print_text(const std::string& text) {
  std::fflush(stderr);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << '\n';
  if (!file.flush())
    print_message("cannot write MH_SUMMARY_JSON={}: {}", path, std::strerror(errno));
}

}  // namespace

void write_report(const std::string& why_not) {
  profile::stop();
  const Wishes wishes = agree_on_wishes();
  if (!wishes.summary && !wishes.profile) return;
  const RankReport mine = own_report();
  std::vector<RankReport> reports = agreement::gather_rows(std::vector{mine});
  const std::vector<HelpedBytes> helped = agreement::gather_rows(own_help());
  const std::vector<observe::UnsharedRegion> left_out =
      agreement::gather_rows(own_regions(mine.elapsed_s));
  const std::vector<std::string> names = listed_names();
  const observe::RegionReport regions{.left_out = left_out, .names = names};
  number_nodes(reports);
  const std::string json = observe::render_json(reports, helped, why_not, regions);
  if (wishes.profile) profile::write(json);
  if (config.world_rank != 0) return;
  if (settings().summary) print_text(observe::render_summary(reports, helped, why_not, regions));
  if (!settings().summary_json.empty()) write_file(settings().summary_json, json);
}

}  // namespace mh::mpi
