// SPDX-License-Identifier: BSD-3-Clause
// Time as the wait loop reads it: raw ticks on the hot path, nanoseconds in reports.
//
// ticks() is the time stamp counter where there is an invariant one (about 10 ns a read), the
// monotonic clock elsewhere. Ticks of two cores of one node are comparable to within a microsecond.
#pragma once

#include <cstdint>

namespace mh {

inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();  // <x86intrin.h>: a fifth of the compiler's time
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
#error "ticks(): tell this file how to read a constant-rate counter on this architecture"
#endif
}

// Calibrated once per process (a few milliseconds at the first call; call it at start-up).
double ticks_per_ns();

inline std::uint64_t ticks_from_ns(double ns) {
  return static_cast<std::uint64_t>(ns * ticks_per_ns());
}
inline double ns_from_ticks(std::uint64_t t) { return static_cast<double>(t) / ticks_per_ns(); }

// One polite turn of a spin loop; not a system call.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace mh
