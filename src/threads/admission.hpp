// SPDX-License-Identifier: BSD-3-Clause
// How many of the waits that are over may end now: where a rank has more threads than cores.
//
// A thread whose message is there and one that runs already share a core, and so do their partners
// in the other rank: then each message costs two switches between threads, some microseconds. A
// thread that has a core to itself, as its partner does, gets its messages within a fraction of
// one. So waits end one at a time for each core. A thread is *out* from the end of a wait until it
// sits or serves again; while one is out, the server offers it the core. The next wait may end when
// a thread has come back; when the server finds that nobody else wants the core it runs on, because
// whoever had it has ended or sleeps elsewhere; or after a while, because whoever has it may
// compute for long.
//
// A message that has just come tells that its sender runs now, so its receiver goes first, and the
// two have their cores at the same time. After a while, the one that is ready for longest does.
//
// Pure arithmetic on ticks; of the server, not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mh::threads {

class Admission {
 public:
  struct Limits {
    std::uint32_t room;      // threads that may be out at a time
    std::uint64_t patience;  // ticks after which one more may
    std::uint64_t alone;     // a core is idle that the server had to itself for so long
    std::uint64_t yield;     // a yield that took longer was one to another thread
  };

  void set(const Limits& limits) {
    *this = {};
    limits_ = limits;
  }

  // Threads are out: their waits have ended, and they have not come back. Not for ever: one that
  // has ended does not. Later than `alone`, since for some time the system may give the core back
  // to a server that offers it, if that has had less of it than others.
  [[nodiscard]] bool any_out(std::uint64_t now) const {
    return out_ != 0 && now - alone_since_ < limits_.patience;
  }
  // A thread begins to serve at `now`.
  void began(std::uint64_t now) { alone_since_ = now; }

  // No more threads are out than have room.
  [[nodiscard]] bool has_room() const { return out_ < limits_.room; }

  enum class Whose : std::uint8_t { nobodys, newest, oldest };
  // Whose wait may end now, of those that are over.
  [[nodiscard]] Whose next(std::uint64_t now) const {
    if (has_room() || is_alone(now)) return Whose::newest;
    return now - counted_to_ >= limits_.patience ? Whose::oldest : Whose::nobodys;
  }

  // A wait has ended at `now`. For each patience that went by before, one more may end: a server
  // that seldom runs must not be the reason why others wait.
  void ended(std::uint64_t now) {
    changed_ = now;
    if (is_alone(now)) out_ = 0;
    if (has_room()) {
      counted_to_ = now;
    } else {
      const std::uint64_t most = kMostAtOnce * limits_.patience;
      counted_to_ = std::max(counted_to_ + limits_.patience, now - std::min(now, most));
    }
    ++out_;
    alone_since_ = now;
  }

  // So many of those that were out have come back to wait.
  void came(std::uint32_t threads, std::uint64_t now) {
    out_ -= std::min(out_, threads);
    changed_ = now;
  }

  // A thread that is out may want the server's core; or nothing has happened for long, and it is
  // for whoever wants it. Else the server keeps it: two ranks that both give their cores to a third
  // job as soon as they wait do not have them at the same time.
  [[nodiscard]] bool should_yield(std::uint64_t now) const {
    return out_ != 0 || now - changed_ >= limits_.patience;
  }

  // The server offered its core to others from `before` to `after`.
  void yielded(std::uint64_t before, std::uint64_t after) {
    if (after - before >= limits_.yield) alone_since_ = after;
  }

 private:
  static constexpr std::uint64_t kMostAtOnce = 64;

  [[nodiscard]] bool is_alone(std::uint64_t now) const {
    return now - alone_since_ >= limits_.alone;
  }

  Limits limits_{.room = 1, .patience = 0, .alone = 0, .yield = 0};
  std::uint32_t out_ = 0;          // threads whose waits ended and that have not come back
  std::uint64_t counted_to_ = 0;   // patience has been used up to here
  std::uint64_t alone_since_ = 0;  // the server has its core to itself
  std::uint64_t changed_ = 0;      // a wait has ended, or begun
};

}  // namespace mh::threads
