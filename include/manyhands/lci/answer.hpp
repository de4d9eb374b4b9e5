// SPDX-License-Identifier: BSD-3-Clause
// The answer of every communication call, and the counters behind the answers.
//
// A call never blocks. If a resource is exhausted for the moment, the call changes nothing and
// answers *retry* with the reason. The caller decides what to do meanwhile: progress, other work,
// yield. In this way back-pressure reaches the producer.
#pragma once

#include <cstdint>

#include "manyhands/result.hpp"

namespace mh::lci {

enum class Retry : std::uint8_t {
  none,
  credit,   // the peer has no free receive packets for us
  packet,   // no packet here
  record,   // as many large messages are under way as may be
  table,    // the matching table is full
  network,  // the transport takes no more now
};
inline constexpr int kRetryReasons = 6;

// A short phrase for messages: "no packet".
[[gnu::visibility("default")]] const char* describe(Retry reason);

class [[nodiscard]] Answer {
 public:
  static constexpr Answer done() { return {State::done, Retry::none, Code::ok}; }
  static constexpr Answer posted() { return {State::posted, Retry::none, Code::ok}; }
  static constexpr Answer retry(Retry reason) { return {State::retry, reason, Code::full}; }
  static constexpr Answer error(Code code) { return {State::error, Retry::none, code}; }

  // Complete; no completion will be delivered for it.
  [[nodiscard]] constexpr bool is_done() const { return state_ == State::done; }
  // Under way; its completion will be delivered.
  [[nodiscard]] constexpr bool is_posted() const { return state_ == State::posted; }
  // Nothing has happened; the same call may succeed later.
  [[nodiscard]] constexpr bool is_retry() const { return state_ == State::retry; }
  // Nothing has happened, and it would be the same again.
  [[nodiscard]] constexpr bool is_error() const { return state_ == State::error; }

  [[nodiscard]] constexpr Retry reason() const { return reason_; }
  [[nodiscard]] constexpr Code code() const { return code_; }  // ok, unless retry or error

 private:
  enum class State : std::uint8_t { done, posted, retry, error };
  constexpr Answer(State state, Retry reason, Code code)
      : state_(state), reason_(reason), code_(code) {}

  State state_;
  Retry reason_;
  Code code_;
};

// The counters of a device, since it was opened.
struct Counters {
  std::uint64_t eager_sent;      // messages that went in one packet
  std::uint64_t eager_received;  // ... that came in one
  std::uint64_t large_sent;      // messages that went by rendezvous, complete
  std::uint64_t large_received;
  std::uint64_t unexpected;              // messages that came before their receive
  std::uint64_t deferred;                // steps of the device itself that had to be tried again
  std::uint64_t retries[kRetryReasons];  // answers `retry`, by reason
};

}  // namespace mh::lci
