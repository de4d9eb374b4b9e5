// SPDX-License-Identifier: BSD-3-Clause
// Time as the wait loop reads it: raw ticks on the hot path, nanoseconds in reports.
//
// ticks() is the invariant time stamp counter (about 10 ns a read). Ticks of two cores of a node
// are comparable to within a microsecond. Threads: any.
#pragma once

#include <cstdint>

#include "base/emulated.hpp"

namespace mh {

inline std::uint64_t ticks() {
  return __builtin_ia32_rdtsc();  // without <x86intrin.h>, which is slow to compile
}

// The ticks of the time stamp counter in a nanosecond. The first call spins until two milliseconds
// have passed since the start of the process (clock.cpp), so it belongs to the start-up.
double ticks_per_ns();

inline std::uint64_t ticks_from_ns(double ns) {
  return static_cast<std::uint64_t>(ns * ticks_per_ns() * emulated::dilation);
}
inline double ns_from_ticks(std::uint64_t t) { return static_cast<double>(t) / ticks_per_ns(); }

// Tells the core that the thread spins; not a system call.
inline void spin_pause() { __builtin_ia32_pause(); }

}  // namespace mh
