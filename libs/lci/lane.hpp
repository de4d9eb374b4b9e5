// SPDX-License-Identifier: BSD-3-Clause
// Gives each thread the number of a *lane*: its own part of a data structure, whose cache lines
// other threads rarely touch. Threads get numbers in the order of their first call. If there are
// more threads than lanes, threads share lanes, so the data of a lane have a lock or are atomic.
#pragma once

#include <atomic>

namespace mh::lci {

namespace detail {
inline std::atomic<unsigned> next_lane{0};  // relaxed: a number that publishes nothing
}

// Returns the number of the calling thread's lane. A light task that moves to another thread after
// this call still uses the first thread's lane: a cache miss, nothing worse.
inline unsigned this_lane() {
  thread_local const unsigned lane = detail::next_lane.fetch_add(1, std::memory_order_relaxed);
  return lane;
}

}  // namespace mh::lci
