// SPDX-License-Identifier: BSD-3-Clause
// The answer of every communication call, and the counters of a device.
//
// A call never blocks. If a resource is exhausted for the moment, the call changes nothing and
// answers *retry* with the reason. The caller makes progress, does other work or yields before it
// makes the call again. In this way back-pressure reaches the producer.
#pragma once

#include <cstdint>

#include "manyhands/result.hpp"

namespace mh::lci {

enum class Retry : std::uint8_t {
  none,
  credit,   // the peer has no free receive packet for this rank
  packet,   // this rank has no free packet
  record,   // too many large messages are under way, or too many receives are posted
  table,    // the matching table is full
  network,  // the transport takes no further operation now
};
inline constexpr int kRetryReasons = 6;

// Returns a short phrase for messages, such as "no packet"; a constant string.
[[gnu::visibility("default")]] const char* describe(Retry reason);

class [[nodiscard]] Answer {
 public:
  static constexpr Answer done() { return {State::done, Retry::none, Code::ok}; }
  static constexpr Answer posted() { return {State::posted, Retry::none, Code::ok}; }
  static constexpr Answer retry(Retry reason) { return {State::retry, reason, Code::full}; }
  static constexpr Answer error(Code code) { return {State::error, Retry::none, code}; }

  // The operation is complete; no completion follows.
  [[nodiscard]] constexpr bool is_done() const { return state_ == State::done; }
  // The operation is under way; a completion follows.
  [[nodiscard]] constexpr bool is_posted() const { return state_ == State::posted; }
  // Nothing has happened; the same call may succeed later.
  [[nodiscard]] constexpr bool is_retry() const { return state_ == State::retry; }
  // Nothing has happened; the same call would fail again.
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

// The counters of a device since it was opened.
struct Counters {
  std::uint64_t eager_sent;              // messages sent in one packet
  std::uint64_t eager_received;          // messages received in one packet
  std::uint64_t large_sent;              // large messages sent, after the end of their put
  std::uint64_t large_received;          // large messages received, after the arrival of their put
  std::uint64_t unexpected;              // messages that arrived before their receive
  std::uint64_t deferred;                // steps of the device that progress() had to repeat
  std::uint64_t retries[kRetryReasons];  // answers `retry`, by reason
};

}  // namespace mh::lci
