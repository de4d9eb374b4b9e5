// SPDX-License-Identifier: BSD-3-Clause
// A 64-bit mixing function (SplitMix64) for hashes of results and for random numbers. A random
// number depends only on the argument, not on the order of calls.
#ifndef WORKSHARE_MIX_H
#define WORKSHARE_MIX_H

#include <stdint.h>

static inline uint64_t mix64(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

#endif
