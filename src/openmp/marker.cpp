// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/marker.hpp"

#include <algorithm>
#include <atomic>

#include "openmp/participation.hpp"
#include "openmp/rebind.hpp"
#include "openmp/schedule.hpp"

namespace mh::openmp {

constinit thread_local Mark last_mark{};

namespace {

// True once permit_teams() was called. relaxed: set before the program's threads can call MPI.
std::atomic<bool> g_teams_permitted{false};

// Returns the chunk rule of a loop that the user has marked. Chunks of a static schedule are also
// handed out while the loop runs, in the user's size or, without a size, by the time that
// iterations take.
LoopChunkRule chunk_rule_of_mark(int schedule, long chunk) {
  const bool is_fixed = schedule < kDynamic || schedule > kRunTime;
  return chunk_rule_of(is_fixed && chunk > 0 ? kDynamic : schedule, chunk);
}

}  // namespace

int mark_next_region(int schedule, long chunk, int steal_schedule, long steal_chunk) {
  if (current != nullptr) return 1;
  if (shared_region() == nullptr) return unshared_team();
  last_mark = {.own = chunk_rule_of_mark(schedule, chunk),
               .helpers = chunk_rule_of_mark(steal_schedule, steal_chunk)};
  return static_cast<int>(kMarkedTeam);
}

void permit_teams() { g_teams_permitted.store(true, std::memory_order_relaxed); }

int unshared_team() {
  if (!g_teams_permitted.load(std::memory_order_relaxed)) return 1;
  using Query = int (*)();
  // The lookup is done once, at the first marked loop. By then a program with marked loops has
  // loaded its OpenMP run time.
  static const auto usual = reinterpret_cast<Query>(rebind::in_run_time("omp_get_max_threads"));
  return usual != nullptr ? std::max(usual(), 1) : 1;
}

}  // namespace mh::openmp
