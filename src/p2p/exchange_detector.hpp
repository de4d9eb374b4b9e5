// SPDX-License-Identifier: BSD-3-Clause
// Predicts whether a message that a rank starts to send is part of an exchange: whether the rank
// receives a long message before it completes a request.
//
// A receive that is started before the send is in the table of receive requests, which the caller
// asks. But a program may send to all neighbours and then receive from all. The detector therefore
// expects a receive after a send if receives followed the previous sends. The detector uses this
// rank's own starts and completions only. A *round* is the long sends from one completion to the
// next.
//
// Any thread. A wrong prediction costs time only: the message takes the slower of the two ways,
// eager and rendezvous.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace mh::p2p {

class ExchangeDetector {
 public:
  // The number of rounds (the long sends from one completion to the next) without a long receive,
  // after the last exchange, that are still predicted to be exchanges.
  static constexpr std::uint32_t kRemembered = 16;

  // To be called when this rank starts a long nonblocking send. True if a long receive probably
  // follows.
  bool starts_send() {
    std::uint32_t now = state();
    if ((now & kOpen) == 0) state_.store(now = now | kOpen, std::memory_order_relaxed);
    return now >= kOne;
  }
  // To be called when this rank starts a long receive, which may make the current round (the long
  // sends since the last completion of a request) an exchange.
  void starts_receive() {
    if ((state() & kOpen) != 0)
      state_.store(kRemembered * kOne | kOpen | kFollowed, std::memory_order_relaxed);
  }
  // Ends a round, the long sends since the last completion of a request. To be called in waits,
  // tests and collectives, in which requests complete.
  void completes() {
    const std::uint32_t now = state();
    if ((now & kOpen) == 0) [[likely]]
      return;
    const std::uint32_t rounds = now / kOne;
    const bool followed = (now & kFollowed) != 0;
    state_.store((followed ? rounds : std::max(rounds, 1U) - 1) * kOne, std::memory_order_relaxed);
  }

 private:
  // The parts of the word `state_`. kOpen: a long send was started, and no request has completed
  // since. kFollowed: a long receive was started after that send. The bits above, in units of kOne:
  // the number of further rounds that are predicted to be exchanges.
  static constexpr std::uint32_t kOpen = 1;
  static constexpr std::uint32_t kFollowed = 2;
  static constexpr std::uint32_t kOne = 4;

  // relaxed: usually one thread alone writes the word; if two threads write it at once, a lost
  // change only costs a wrong prediction.
  [[nodiscard]] std::uint32_t state() const { return state_.load(std::memory_order_relaxed); }

  std::atomic<std::uint32_t> state_{0};
};

}  // namespace mh::p2p
