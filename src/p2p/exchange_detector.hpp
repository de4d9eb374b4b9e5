// SPDX-License-Identifier: BSD-3-Clause
// Is a message that a rank starts to send part of an exchange: will the rank receive a long message
// before it awaits anything?
//
// Where the receive is started first, that is seen. Where it is started behind the send, in
// programs that send to all neighbours and then receive from all, it can only be expected, because
// the last ones were followed by a receive, too. Pure; of a rank's own starts and completions.
//
// Threads may meet here: all is a guess, and a wrong one costs what describing or not describing a
// message costs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace mh::p2p {

class ExchangeDetector {
 public:
  // After the last exchange, so many rounds of long sends without a receive are taken for others.
  static constexpr std::uint32_t kRemembered = 16;

  // A long send is started, and the rank goes on. True if a long receive probably follows.
  bool starts_send() {
    std::uint32_t now = state();
    if ((now & kOpen) == 0) state_.store(now = now | kOpen, std::memory_order_relaxed);
    return now >= kOne;
  }
  // A long receive is started.
  void starts_receive() {
    if ((state() & kOpen) != 0)
      state_.store(kRemembered * kOne | kOpen | kFollowed, std::memory_order_relaxed);
  }
  // The rank waits for requests or for others, or looks at requests.
  void completes() {
    const std::uint32_t now = state();
    if ((now & kOpen) == 0) [[likely]]
      return;
    const std::uint32_t rounds = now / kOne;
    const bool followed = (now & kFollowed) != 0;
    state_.store((followed ? rounds : std::max(rounds, 1U) - 1) * kOne, std::memory_order_relaxed);
  }

 private:
  // A long send was started and nothing completed since; a long receive was started behind it; and
  // the rounds left that are taken for exchanges.
  static constexpr std::uint32_t kOpen = 1;
  static constexpr std::uint32_t kFollowed = 2;
  static constexpr std::uint32_t kOne = 4;

  // relaxed: of the calling thread, as a rule.
  [[nodiscard]] std::uint32_t state() const { return state_.load(std::memory_order_relaxed); }

  std::atomic<std::uint32_t> state_{0};
};

}  // namespace mh::p2p
