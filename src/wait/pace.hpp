// SPDX-License-Identifier: BSD-3-Clause
// Is it worth while to fill the waits among these calls? Not in a tight loop of short ones: there
// is nothing to fill, and every nanosecond of looking around is felt.
//
// The clock is read once in kStride calls. A loop counts as tight after kStrides strides in a row
// whose calls came less than the limit apart on average; one slow stride ends that, so a wait that
// is overslept costs at most a stride. Pure arithmetic on ticks; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace mh::wait {

class Pace {
 public:
  static constexpr std::uint32_t kStride = 16;
  static constexpr std::uint32_t kStrides = 4;

  // Called before each of the calls: whether they come in a tight loop, less than `limit` ticks
  // apart. `now` gives the time in ticks, `limit` the limit; both are asked once a stride.
  template <class Now, class Limit>
  bool tight(Now&& now, Limit&& limit) {
    if (known_tight()) return true;
    if (--left_ != 0) return false;
    look(now(), limit());
    return quick_strides_ == kStrides;
  }

  // As tight(), where the clock need not be read for it; if false, tight() has to be asked.
  bool known_tight() {
    if (tight_left_ == 0) return false;
    --tight_left_;
    return true;
  }

  // In a tight loop, after tight(): so many further calls are of it, and need not be asked about.
  std::uint32_t grant() { return std::exchange(tight_left_, 0); }
  // Of these, so many were not made.
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

  std::uint64_t last_ = 0;
  std::uint32_t tight_left_ = 0;  // calls until the next look, in a tight loop
  std::uint32_t left_ = 1;        // likewise, elsewhere; 1 in a tight loop, for when those are over
  std::uint32_t quick_strides_ = 0;
};

}  // namespace mh::wait
