// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/sharing.hpp"

#include <pthread.h>

#include <optional>
#include <utility>
#include <vector>

#include "openmp/encounter.hpp"
#include "openmp/gomp.hpp"
#include "openmp/kmpc.hpp"
#include "openmp/rebind.hpp"

namespace mh::openmp {

Sites sites;
std::atomic<Region*> detail::region{nullptr};
Whose whose = Whose::marked;

namespace {

std::optional<Region> g_region;
lend::Pool* g_pool = nullptr;

// A child has none of its parent's helpers, and the parent's place in the node is not its own.
void forget_in_child() { detail::region.store(nullptr, std::memory_order_relaxed); }

}  // namespace

bool has_marked_loops() { return rebind::imported("__mh_ws_mark"); }

Status start(lend::Pool& pool, Whose loops) {
  whose = loops;
  static const bool watched = ::pthread_atfork(nullptr, nullptr, forget_in_child) == 0;
  if (!watched) return {Code::system};
  std::vector<Binding> bindings;
  add_gomp(bindings);
  add_kmpc(bindings);
  add_queries(bindings);
  const Status bound = rebind::start(std::move(bindings));
  if (!bound) return bound;
  g_pool = &pool;
  g_region.emplace(pool);
  detail::region.store(&*g_region, std::memory_order_relaxed);
  return {};
}

void look_for_new_objects() {
  if (shared_region() != nullptr) rebind::again();
}

void stop() { detail::region.store(nullptr, std::memory_order_relaxed); }

Report report() {
  Report report{};
  if (!g_region) return report;
  sites.each([&](const Site& site) {
    const Site::State state = site.state.load(std::memory_order_relaxed);
    if (state == Site::State::shared) {
      ++report.shared;
    } else if (state == Site::State::excluded) {
      ++report.excluded[static_cast<std::size_t>(site.obstacle.load(std::memory_order_relaxed))];
    }
  });
  report.exposures = g_region->exposures();
  report.units = g_pool->units(lend::Kind::loops);
  return report;
}

}  // namespace mh::openmp
