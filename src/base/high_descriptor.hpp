// SPDX-License-Identifier: BSD-3-Clause
// Numbers for descriptors that the library keeps open, out of the way of the program's own.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace mh {

// Returns the least number for a descriptor that the library keeps open. The number is high, but no
// higher than needed, because the kernel's table of descriptors is as long as the highest number.
// -1: RLIMIT_NOFILE is so low that the program may need each number.
inline int high_descriptor() {
  constexpr rlim_t kHigh = 1024;
  constexpr rlim_t kRoom = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 4 * kRoom) return -1;
  return static_cast<int>(std::min(limit.rlim_cur - kRoom, kHigh));
}

}  // namespace mh
