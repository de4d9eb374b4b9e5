// SPDX-License-Identifier: BSD-3-Clause
// Moving threads between cores: those of other processes of this user as well as one's own.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>

namespace mh::lend {

namespace detail {
inline bool bind(std::int32_t thread, std::int32_t cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(thread, sizeof set, &set) == 0;
}
}  // namespace detail

// From now on that thread (its number in the system) runs on this CPU alone. False where it may not
// (cpusets), where there is no such CPU, and where there is no such thread (any more): its number
// is 0 then, by which the system would take the calling one.
inline bool bind_thread(std::int32_t thread, std::int32_t cpu) {
  return thread > 0 && detail::bind(thread, cpu);
}
// Likewise the calling thread.
inline bool bind_this_thread(std::int32_t cpu) { return detail::bind(0, cpu); }

}  // namespace mh::lend
