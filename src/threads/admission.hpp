// SPDX-License-Identifier: BSD-3-Clause
// How many of the waits that are over may end now: where a rank has more threads than cores.
//
// A thread whose message is there and one that runs already share a core, and so do their partners
// in the other rank: then each message costs two switches between threads, some microseconds. A
// thread that has a core to itself, as its partner does, gets its messages within a fraction of
// one. So waits end one at a time for each core: the next one when a thread has come back to wait,
// or after a while, because one that computes, or sleeps elsewhere, does not come back.
//
// Pure arithmetic on ticks; of the server, not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mh::threads {

class Admission {
 public:
  // `room`: threads that may be out at a time; `patience`: ticks after which one more may.
  void set(std::uint32_t room, std::uint64_t patience) {
    room_ = std::max(room, 1U);
    patience_ = patience;
    out_ = 0;
  }

  // No more threads are out than have room.
  [[nodiscard]] bool has_room() const { return out_ < room_; }

  [[nodiscard]] bool may_end(std::uint64_t now) const {
    return has_room() || now - counted_to_ >= patience_;
  }

  // A wait has ended at `now`. For each patience that went by before, one more may end: a server
  // that seldom runs must not be the reason why others wait.
  void ended(std::uint64_t now) {
    if (has_room()) {
      ++out_;
      counted_to_ = now;
    } else {
      counted_to_ = std::max(counted_to_ + patience_, now - std::min(now, kMostAtOnce * patience_));
    }
  }

  // So many threads have come to wait.
  void came(std::uint32_t threads) { out_ -= std::min(out_, threads); }

 private:
  static constexpr std::uint64_t kMostAtOnce = 64;

  std::uint32_t room_ = 1;
  std::uint64_t patience_ = 0;
  std::uint32_t out_ = 0;         // threads whose waits ended and that have not come back
  std::uint64_t counted_to_ = 0;  // patience has been used up to here
};

}  // namespace mh::threads
