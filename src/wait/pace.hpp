// SPDX-License-Identifier: BSD-3-Clause
// Detects tight loops of short MPI calls. Their waits are too short for help, and every nanosecond
// of bookkeeping counts, so such calls skip the wait loop and wait in the MPI library.
//
// The clock is read once in a *stride* of kStride calls. A loop is tight after kStrides successive
// strides whose calls came less than the limit apart on average. A long wait makes its stride slow,
// and a single slow stride ends the tight loop. A rank therefore skips the wait loop for the rest
// of that stride at most. Threads: pure arithmetic on ticks; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace mh::wait {

class Pace {
 public:
  static constexpr std::uint32_t kStride = 16;
  static constexpr std::uint32_t kStrides = 4;

  // Called before each MPI call for which neither known_tight() nor grant() has said yes. True if
  // the calls come in a tight loop, less than `limit()` ticks apart. `now()` and `limit()` are
  // called once in kStride calls.
  template <class Now, class Limit>
  bool tight(Now&& now, Limit&& limit) {
    if (known_tight()) return true;
    if (--left_ != 0) return false;
    look(now(), limit());
    return quick_strides_ == kStrides;
  }

  // Called before an MPI call in place of tight(), which looks at the clock. True if the call
  // belongs to a tight loop by the last look. After false, the caller must call tight().
  bool known_tight() {
    if (tight_left_ == 0) return false;
    --tight_left_;
    return true;
  }

  // Called after tight() has been true. Returns the number of further MPI calls that belong to the
  // tight loop by the last look at the clock. The caller counts these calls itself, and calls
  // neither tight() nor known_tight() for them.
  std::uint32_t grant() { return std::exchange(tight_left_, 0); }
  // Takes back those `calls` of the last grant() that the program has not made.
  void give_back(std::uint32_t calls) { tight_left_ = calls; }

 private:
  void look(std::uint64_t now, std::uint64_t limit) {
    const bool quick = now - last_ < kStride * limit;
    quick_strides_ = quick ? std::min(quick_strides_ + 1, kStrides) : 0;
    last_ = now;
    const bool tight = quick_strides_ == kStrides;
    tight_left_ = tight ? kStride - 1 : 0;
    left_ = tight ? 1 : kStride;
  }

  std::uint64_t last_ = 0;        // ticks at the last look
  std::uint32_t tight_left_ = 0;  // calls until the next look, in a tight loop
  // Outside a tight loop: the number of calls until tight() looks at the clock next. In a tight
  // loop tight_left_ counts the calls, and this number is 1.
  std::uint32_t left_ = 1;
  std::uint32_t quick_strides_ = 0;
};

}  // namespace mh::wait
