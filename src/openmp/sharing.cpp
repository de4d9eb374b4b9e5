// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/sharing.hpp"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "openmp/encounter.hpp"
#include "openmp/rebind.hpp"
#include "openmp/virtual_threads.hpp"

namespace mh::openmp {

namespace {

// The process's shared region. Never destroyed: without MPI_Finalize helpers may still come while
// the process ends.
std::optional<SharedRegion>& g_region = *new std::optional<SharedRegion>;
lend::Pool* g_pool = nullptr;

// Called in a forked child. The child is no rank of the node and has no helpers, so its loops are
// not shared. forget_number(): libomp numbers the child's thread anew.
void forget_in_child() {
  detail::region.store(nullptr, std::memory_order_relaxed);
  forget_number();
}

}  // namespace

void share_static_loops(std::uint32_t cores) { own_cores = cores; }

bool has_marked_loops() { return rebind::is_imported("__mh_ws_mark"); }

Status start_sharing(lend::Pool& pool, lend::Workers* spare, SharedLoops loops) {
  shared_loops = loops;
  static const bool watched = ::pthread_atfork(nullptr, nullptr, forget_in_child) == 0;
  if (!watched) return {Code::system};
  std::vector<Binding> bindings;
  add_gomp(bindings);
  add_kmpc(bindings);
  add_queries(bindings);
  const Status bound = rebind::rebind_all(std::move(bindings));
  if (!bound) return bound;
  g_pool = &pool;
  g_region.emplace(pool, spare);
  detail::region.store(&*g_region, std::memory_order_relaxed);
  return {};
}

bool team_is_idle() {
  return shared_region() != nullptr && real.in_parallel != nullptr && real.in_parallel() == 0;
}

void look_for_new_objects() {
  if (shared_region() != nullptr) rebind::rebind_new_objects();
}

void stop_sharing() {
  SharedRegion* const last = detail::region.exchange(nullptr, std::memory_order_relaxed);
  if (last != nullptr) last->close();
}

SharingReport sharing_report() {
  SharingReport report{};
  if (!g_region) return report;
  sites.each([&](const Site& site) {
    const Obstacle obstacle = obstacle_of(site);
    if (obstacle != Obstacle::none) {
      ++report.excluded[static_cast<std::size_t>(obstacle)];
    } else if (site.state.load(std::memory_order_relaxed) == SiteState::shared) {
      ++report.shared;
      if (site.virtual_use.load(std::memory_order_relaxed).on) ++report.by_virtual_threads;
    }
  });
  report.on = true;
  report.exposures = g_region->exposures();
  report.units = g_pool->units(lend::WorkKind::loops);
  report.units_waited = g_pool->given_back();
  return report;
}

std::vector<ExcludedRegion> hottest(std::size_t most) {
  const auto spent = [](const Site* site) { return site->spent.load(std::memory_order_relaxed); };
  std::vector<const Site*> found;
  if (g_region) {
    sites.each([&](const Site& site) {
      if (obstacle_of(site) != Obstacle::none) found.push_back(&site);
    });
  }
  std::sort(found.begin(), found.end(),
            [&](const Site* a, const Site* b) { return spent(a) > spent(b); });
  if (found.size() > most) found.resize(most);
  std::vector<ExcludedRegion> all;
  for (const Site* site : found) {
    all.push_back({.name = name_of(site->body.load(std::memory_order_relaxed),
                                   site->source.load(std::memory_order_relaxed)),
                   .obstacle = obstacle_of(*site),
                   .seconds = ns_from_ticks(spent(site)) * 1e-9});
  }
  return all;
}

}  // namespace mh::openmp
