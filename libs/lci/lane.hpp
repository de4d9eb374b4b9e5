// SPDX-License-Identifier: BSD-3-Clause
// Which lane of a structure with one lane for each thread is the caller's: threads are numbered as
// they come, and the number is all that is kept. Two threads may share a lane; lanes have locks.
#pragma once

#include <atomic>

namespace mh::lci {

namespace detail {
inline std::atomic<unsigned> next_lane{0};  // relaxed: a number, nothing is published by it
}

// A light task may ask on one thread and use the answer on another: it costs it a cache line.
inline unsigned this_lane() {
  thread_local const unsigned lane = detail::next_lane.fetch_add(1, std::memory_order_relaxed);
  return lane;
}

}  // namespace mh::lci
