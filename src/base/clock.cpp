// SPDX-License-Identifier: BSD-3-Clause
// Measures the length of a tick of the processor's time stamp counter. Some processes are not
// permitted to read the counter's frequency, so this file compares the counter with the monotonic
// clock from the start of the process.
#include "base/clock.hpp"

#include <time.h>

namespace mh {
namespace {

// The shortest time between the two comparisons of counter and clock from which the length of a
// tick is computed. Each comparison is exact to 0.1 us, so the relative error is below 1e-4.
// MPI_Init takes longer, so that ticks_per_ns() need not wait after it.
constexpr std::int64_t kLeastCalibrationNs = 2'000'000;

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// The monotonic clock (ns) and the time stamp counter (ticks) at the same instant. The thread may
// lose its core between two readings of the clock, so read_both() takes the closest pair of eight
// tries.
struct Instant {
  std::int64_t ns;
  std::uint64_t ticks;
};
Instant read_both() {
  Instant best{};
  std::int64_t narrowest = INT64_MAX;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const std::int64_t before = monotonic_ns();
    const std::uint64_t between = ticks();
    const std::int64_t after = monotonic_ns();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    best = {before + narrowest / 2, between};
  }
  return best;
}

// Clock and counter at the start of the process, or when this library was loaded: a constructor
// makes the first call.
const Instant& start_instant() {
  static const Instant start = read_both();
  return start;
}
[[gnu::constructor]] void note_start() { static_cast<void>(start_instant()); }

double measure_ticks_per_ns() {
  const Instant& first = start_instant();
  while (monotonic_ns() - first.ns < kLeastCalibrationNs) spin_pause();
  const Instant last = read_both();
  return static_cast<double>(last.ticks - first.ticks) / static_cast<double>(last.ns - first.ns);
}

}  // namespace

double ticks_per_ns() {
  static const double measured = measure_ticks_per_ns();
  return measured;
}

}  // namespace mh
