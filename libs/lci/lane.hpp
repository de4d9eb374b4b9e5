// SPDX-License-Identifier: BSD-3-Clause
// The lane of the calling thread, in a structure with one lane for each thread. Threads get numbers
// in the order of their first call. Two threads may share a lane; lanes have locks.
#pragma once

#include <atomic>

namespace mh::lci {

namespace detail {
inline std::atomic<unsigned> next_lane{0};  // relaxed: a number that publishes nothing
}

// The lane of the calling thread. A light task that moves to another thread before it uses the lane
// uses the lane of the first thread: a cache miss, nothing worse.
inline unsigned this_lane() {
  thread_local const unsigned lane = detail::next_lane.fetch_add(1, std::memory_order_relaxed);
  return lane;
}

}  // namespace mh::lci
