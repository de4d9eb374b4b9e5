// SPDX-License-Identifier: BSD-3-Clause
// Sharing of this process's loops: on from start() to stop().
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "lend/pool.hpp"
#include "openmp/names.hpp"
#include "openmp/participation.hpp"
#include "openmp/sites.hpp"

namespace mh::openmp {

// From now on loops of this process are exposed to the pool's helpers. `unsupported` if the process
// has no OpenMP run time, or several; then nothing is changed. One thread.
Status start(lend::Pool& pool, Whose loops);
// Whether the program or a library of it has marked loops.
bool has_marked_loops();
// Whether no region is in progress on the calling thread, so that its team has nothing to do.
bool team_is_idle();
// Objects that were loaded since (extension modules). Cheap if there are none.
void look_for_new_objects();
// No loop is in progress.
void stop();

struct Report {
  std::uint64_t shared;                // regions whose loops are shared
  std::uint64_t excluded[kObstacles];  // regions that are not, by reason
  std::uint64_t exposures;             // executions that were open to helpers
  std::uint64_t units;                 // done by helpers
  std::uint64_t units_waited;          // of these, those that had to wait inside MPI
  bool on;                             // start() was called and has succeeded
};
Report report();

// A region that is not shared.
struct Hot {
  Name name;
  Obstacle obstacle;
  double seconds;  // about what this process has spent there
};
// The `most` that took longest, that one first. Reads files: once.
std::vector<Hot> hottest(std::size_t most);

}  // namespace mh::openmp
