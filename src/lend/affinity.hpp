// SPDX-License-Identifier: BSD-3-Clause
// Moving threads between cores: those of other processes of this user as well as one's own.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>

namespace mh::lend {

// From now on that thread (its number in the system, 0: the calling one) runs on this CPU alone.
// False where it may not (cpusets), or where there is no such CPU.
inline bool bind_thread(std::int32_t thread, std::int32_t cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(thread, sizeof set, &set) == 0;
}

}  // namespace mh::lend
