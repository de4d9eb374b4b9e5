// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/participation.hpp"

#include <utility>
#include <vector>

namespace mh::openmp {

Sites sites;
Lists& lists = *new Lists;  // never destroyed: exit handlers of the program may have regions
SharedLoops shared_loops = SharedLoops::marked;
std::atomic<SharedRegion*> detail::region{nullptr};

constinit thread_local std::uint32_t depth = 0;

namespace {

constinit thread_local std::vector<Participant*> t_set_aside;

}  // namespace

void begin_set_aside() {
  report_obstacle(Obstacle::nested);
  t_set_aside.push_back(std::exchange(current, nullptr));
  ++depth;
}

void end_set_aside() {
  if (t_set_aside.empty()) return;  // the region began before its calls were rebound
  --depth;
  current = t_set_aside.back();
  t_set_aside.pop_back();
}

}  // namespace mh::openmp
