// SPDX-License-Identifier: BSD-3-Clause
// Switches the sharing of this process's loops on and off. One thread at a time.
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

// Exposes the process's loops to the helpers of the pool from now on. `spare`: the workers on the
// rank's spare cores, or null. Returns `unsupported` if the process has no OpenMP run time, or
// several; nothing is changed then.
Status start_sharing(lend::Pool& pool, lend::Workers* spare, SharedLoops loops);
// Lets regions with static loops run by virtual threads (virtual_threads.hpp). `cores`: the number
// of this rank's cores. Call before start_sharing().
void share_static_loops(std::uint32_t cores);
// True if the program or one of its libraries has marked loops.
bool has_marked_loops();
// True if loops are shared and the calling thread is in no region, so that its team is idle.
bool team_is_idle();
// Looks for objects loaded since the last call (extension modules). Cheap if no object was loaded.
void look_for_new_objects();
// Precondition: no loop is in progress.
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

// A region that is not shared.
struct ExcludedRegion {
  RegionName name;
  Obstacle obstacle;
  double seconds;  // approximate time that this process has spent in the region
};
// The `most` regions with the longest times, in descending order. Reads files: call once.
std::vector<ExcludedRegion> hottest(std::size_t most);

}  // namespace mh::openmp
