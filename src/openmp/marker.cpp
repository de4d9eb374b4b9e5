// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/marker.hpp"

#include "openmp/participation.hpp"
#include "openmp/schedule.hpp"

namespace mh::openmp {

constinit thread_local Mark last_mark{};

namespace {

// Chunks of a static schedule are also handed out in order, in sizes that suit the loop.
LoopChunkRule chunk_rule_of_mark(int schedule, long chunk) {
  const bool is_fixed = schedule < kDynamic || schedule > kRunTime;
  return chunk_rule_of(is_fixed && chunk > 0 ? kDynamic : schedule, chunk);
}

}  // namespace

int mark_next_region(int schedule, long chunk, int steal_schedule, long steal_chunk) {
  if (current != nullptr || shared_region() == nullptr) return 1;
  last_mark = {.own = chunk_rule_of_mark(schedule, chunk),
               .helpers = chunk_rule_of_mark(steal_schedule, steal_chunk)};
  return static_cast<int>(kMarkedTeam);
}

}  // namespace mh::openmp
