// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/marker.hpp"

#include "openmp/schedule.hpp"
#include "openmp/sharing_state.hpp"

namespace mh::openmp {

constinit thread_local Mark last_mark{};

namespace {

// Chunks of a fixed schedule are given out in order too, as large as is good for the loop.
Cut cut_of(int schedule, long chunk) {
  enum { kDynamic = 2, kGuided = 3, kRunTime = 4 };
  const std::uint64_t size = chunk > 0 ? static_cast<std::uint64_t>(chunk) : 1;
  switch (schedule) {
    case kDynamic:
      return {.schedule = Schedule::dynamic, .chunk = size};
    case kGuided:
      return {.schedule = Schedule::guided, .chunk = size};
    case kRunTime:
      return cut_at_run_time();
    default:
      break;
  }
  if (chunk > 0) return {.schedule = Schedule::dynamic, .chunk = size};
  return {};
}

}  // namespace

int mark(int schedule, long chunk, int steal_schedule, long steal_chunk) {
  if (current != nullptr || shared_region() == nullptr) return 1;
  last_mark = {.own = cut_of(schedule, chunk), .helpers = cut_of(steal_schedule, steal_chunk)};
  return static_cast<int>(kMarkedTeam);
}

}  // namespace mh::openmp
