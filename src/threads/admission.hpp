// SPDX-License-Identifier: BSD-3-Clause
// Limits how many finished waits end at a time, for a rank with more threads than cores.
//
// Suppose that a thread whose message has come shares its core with a running thread, and that its
// partner in the other rank does, too. Each message then costs two thread switches, some
// microseconds. A thread that has a core to itself gets its messages within a fraction of a
// microsecond, if its partner has a core to itself as well. Waits therefore end one at a time for
// each core.
//
// A thread is *out* from the end of a wait until it sits or serves again (election.hpp). While a
// thread is out, the server offers its own core to that thread. The next wait may end in three
// cases:
//   - a thread that was out has come back;
//   - the server has its core to itself: the thread that is out has ended or sleeps elsewhere;
//   - some time has passed: the thread that is out may compute for long.
//
// Of the finished waits, the newest ends first: the sender of its message runs now, so both
// partners have their cores at the same time. If no core becomes free for `patience` (Limits), the
// oldest finished wait ends instead.
//
// Threads: pure arithmetic on ticks; only the server calls it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mh::threads {

class WaitAdmission {
 public:
  struct Limits {
    std::uint32_t cores;     // threads that may be out at a time
    std::uint64_t patience;  // ticks after which another thread may be out
    std::uint64_t alone;     // a core that the server has had to itself this long is idle
    std::uint64_t yield;     // ticks of a yield; in a longer yield another thread has run
  };

  void set_limits(const Limits& limits) {
    *this = {};
    limits_ = limits;
  }

  // True if threads are out, that is, between the end of a wait and the next one. Becomes false
  // once the server has had its core to itself for `patience` (Limits, in ticks), because a thread
  // that has exited never comes back. `patience` is longer than `alone` (Limits): the system may
  // give the core for longer than `alone` to a server that has run less than other threads,
  // although a thread that is out wants the core.
  [[nodiscard]] bool has_threads_out(std::uint64_t now) const {
    return out_ != 0 && now - alone_since_ < limits_.patience;
  }
  // Records that the calling thread becomes the server at `now` (ticks).
  void began(std::uint64_t now) { alone_since_ = now; }

  // True if another thread may be out, that is, another wait may end: a core is free for the
  // thread.
  [[nodiscard]] bool has_free_core() const { return out_ < limits_.cores; }

  enum class NextWait : std::uint8_t { none, newest, oldest };
  // Tells which of the finished waits of sitting threads may end now (ticks): the newest, the
  // oldest, or none.
  [[nodiscard]] NextWait next(std::uint64_t now) const {
    if (has_free_core() || is_alone(now)) return NextWait::newest;
    return now - counted_to_ >= limits_.patience ? NextWait::oldest : NextWait::none;
  }

  // Records that a wait has ended at `now` (ticks), so one more thread is out, that is, back in the
  // program. Each period of `patience` that has passed allows another wait to end, so a server that
  // seldom runs does not delay other threads.
  void ended(std::uint64_t now) {
    changed_ = now;
    if (is_alone(now)) out_ = 0;
    if (has_free_core()) {
      counted_to_ = now;
    } else {
      const std::uint64_t most = kMostAtOnce * limits_.patience;
      counted_to_ = std::max(counted_to_ + limits_.patience, now - std::min(now, most));
    }
    ++out_;
    alone_since_ = now;
  }

  // Records that `threads` threads, which were back in the program (out) since their last wait, sit
  // or serve again.
  void came(std::uint32_t threads, std::uint64_t now) {
    out_ -= std::min(out_, threads);
    changed_ = now;
  }

  // True if a thread that has ended its wait may want the server's core, or if no wait has begun or
  // ended for `patience`. Otherwise the server keeps the core. If two ranks yielded to unrelated
  // processes whenever they wait, they would never run at the same time.
  [[nodiscard]] bool should_yield(std::uint64_t now) const {
    return out_ != 0 || now - changed_ >= limits_.patience;
  }

  // Records that the server yielded its core from `before` to `after` (ticks). In a long yield
  // another thread has run, so the server has the core to itself only since `after`.
  void yielded(std::uint64_t before, std::uint64_t after) {
    if (after - before >= limits_.yield) alone_since_ = after;
  }

 private:
  // The most waits that end at once after the server has not run for a long time.
  static constexpr std::uint64_t kMostAtOnce = 64;

  [[nodiscard]] bool is_alone(std::uint64_t now) const {
    return now - alone_since_ >= limits_.alone;
  }

  Limits limits_{.cores = 1, .patience = 0, .alone = 0, .yield = 0};
  std::uint32_t out_ = 0;          // number of threads that are out
  std::uint64_t counted_to_ = 0;   // `patience` is used up to this time
  std::uint64_t alone_since_ = 0;  // since when the server has had its core to itself
  std::uint64_t changed_ = 0;      // the last time at which a wait ended or began
};

}  // namespace mh::threads
