// SPDX-License-Identifier: BSD-3-Clause
// Tells a rank that does nothing but poll from a rank that computes between its polls.
//
// A rank that only polls is waiting, and can help others as in a blocking call. A rank that
// computes between two polls needs its core. A *stretch* is a series of failed polls without a
// pause between them: their period, measured by one look at the clock in kPolls failed polls, is
// short. Once a stretch has lasted, the caller measures how long a poll takes by itself. In a
// *pure* stretch the period of the polls is about that time. A step of help that finds nothing is
// followed by a rest, so such steps take at most a 64th of the program's time. Threads: pure
// arithmetic on ticks; an instance per thread, not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mh::wait {

class PollingStretch {
 public:
  static constexpr std::uint32_t kPolls = 256;  // from one look to the next

  struct Limits {                  // in ticks
    std::uint64_t longest_period;  // from poll to poll, in a stretch
    std::uint64_t lasts;           // a stretch is measured after this time
    std::uint64_t pause;           // without measurement, after a stretch that was not pure
    std::uint64_t slack;           // for the program's loop around a poll, beside half a poll
  };
  // The judgement of a rank by its failed polls. `works`: the rank computes between its polls, or
  // nothing is known yet, or a step of help has just found nothing, so the rank rests. `unknown`:
  // polls have followed one another for a while, and a single poll is to be measured. `only_polls`:
  // the rank does nothing but poll.
  enum class Verdict : std::uint8_t { works, unknown, only_polls };

  explicit PollingStretch(const Limits& limits) : limits_(limits) {}

  // Judges the rank at `now` (ticks). Called once in kPolls failed polls. After `unknown`, the
  // caller times a poll and calls is_pure().
  Verdict look(std::uint64_t now) {
    period_ = (now - left_) / kPolls;
    if (period_ > (pure_period_ != 0 ? pure_period_ : limits_.longest_period)) restart(now);
    if (now < counts_from_ || now < rests_until_) return Verdict::works;
    return pure_period_ != 0 ? Verdict::only_polls : Verdict::unknown;
  }

  // Called after look() has returned `unknown`, with the `ticks` that a single poll takes. True if
  // the rank only polls: its polls follow one another about as fast as a poll takes.
  bool is_pure(std::uint64_t ticks, std::uint64_t now) {
    const std::uint64_t longest = ticks + ticks / 2 + limits_.slack;
    if (period_ <= longest) {
      pure_period_ = longest;
      return true;
    }
    counts_from_ = now + limits_.pause;
    return false;
  }

  // Called after a step of help that took `ticks` and found nothing to do. The rank does not help
  // for kRest times as long.
  void rest(std::uint64_t ticks, std::uint64_t now) { rests_until_ = now + kRest * ticks; }

  // Called at the end of a look and of its step of help, when the program continues. The period of
  // the polls is measured from `now` (ticks) on.
  void leave(std::uint64_t now) { left_ = now; }

 private:
  static constexpr std::uint64_t kRest = 63;  // a rest, in durations of the step before it

  void restart(std::uint64_t now) {
    counts_from_ = std::max(counts_from_, now + limits_.lasts);
    pure_period_ = 0;
  }

  Limits limits_;
  std::uint64_t left_ = 0;         // time of the last leave()
  std::uint64_t counts_from_ = 0;  // a stretch is not measured before this time
  std::uint64_t rests_until_ = 0;
  std::uint64_t period_ = 0;       // ticks from poll to poll, in the last kPolls
  std::uint64_t pure_period_ = 0;  // the longest period of a pure stretch; 0: not known
};

}  // namespace mh::wait
