// SPDX-License-Identifier: BSD-3-Clause
// Measures the length of a tick. Some processes may not read the frequency of the time stamp
// counter, so this file compares the counter with the monotonic clock from the start of the
// process.
#include "base/clock.hpp"

#include <time.h>

namespace mh {
namespace {

// The shortest time between the two readings of the clocks. Each reading is exact to 0.1 us, so the
// relative error is below 1e-4. MPI_Init takes longer than this time.
constexpr std::int64_t kLeastCalibrationNs = 2'000'000;

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// Both clocks at one instant. The process may lose its core between the two readings of the
// monotonic clock, so the closest pair of several tries counts.
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

// The start of the process, or the load of the library.
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
