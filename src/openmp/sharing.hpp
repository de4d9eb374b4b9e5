// SPDX-License-Identifier: BSD-3-Clause
// Switches the sharing of this process's OpenMP loops on and off. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "lend/pool.hpp"
#include "lend/workers.hpp"
#include "openmp/names.hpp"
#include "openmp/participation.hpp"
#include "openmp/sites.hpp"

namespace mh::openmp {

// Lets the helpers of the pool join the process's loops from now on. `spare`: the workers on the
// rank's spare cores, or null. Returns `unsupported` if the process has no OpenMP run time, or
// several; nothing is changed then.
Status start_sharing(lend::Pool& pool, lend::Workers* spare, SharedLoops loops);
// Lets regions with static loops run by virtual threads: the function of the region is called for
// each thread number, also by helpers (virtual_threads.hpp). `cores`: the number of this rank's
// cores. Call before start_sharing().
void share_static_loops(std::uint32_t cores);
// True if the program or one of its libraries has loops that the user has marked (marker.hpp).
bool has_marked_loops();
// True if loops are shared and the calling thread is in no parallel region, so that its OpenMP team
// is idle.
bool team_is_idle();
// Redirects the OpenMP calls of programs and libraries, such as extension modules, that were loaded
// since the last call of this function. Cheap if none was loaded.
void look_for_new_objects();
// From now on no helper joins a loop of the process. Precondition: no loop is in progress.
void stop_sharing();

struct SharingReport {
  std::uint64_t shared;                // regions whose loops are shared
  std::uint64_t by_virtual_threads;    // of these, regions with static loops
  std::uint64_t excluded[kObstacles];  // other regions, by reason
  std::uint64_t exposures;             // executions that were open to helpers
  std::uint64_t units;                 // units done by helpers on cores of other ranks
  std::uint64_t units_waited;  // units whose helper gave its core back because it had to wait
  bool on;                     // start_sharing() has succeeded
};
SharingReport sharing_report();

// A region whose loops helpers cannot join, for the summary.
struct ExcludedRegion {
  RegionName name;
  Obstacle obstacle;
  double seconds;  // approximate time that this process has spent in the region
};
// Returns the `most` regions, among those that are not shared, in which this process has spent most
// time, in descending order. Reads files, so it is called once, at the end.
std::vector<ExcludedRegion> hottest(std::size_t most);

}  // namespace mh::openmp
