// SPDX-License-Identifier: BSD-3-Clause
// The answer of every communication call of LCI, and the counters of a device (a context of the
// network, device.hpp).
//
// A call never blocks. If a resource (a packet, a credit, a record of an operation) is exhausted
// for the moment, the call changes nothing and answers *retry* with the reason. The caller calls
// Device::progress(), does other work or yields before it makes the call again. In this way
// back-pressure reaches the producer of the messages.
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

// Returns a short phrase for a text to the user, such as "no packet"; a constant string.
[[gnu::visibility("default")]] const char* describe(Retry reason);

class [[nodiscard]] Answer {
 public:
  static constexpr Answer done() { return {State::done, Retry::none, Code::ok}; }
  static constexpr Answer posted() { return {State::posted, Retry::none, Code::ok}; }
  static constexpr Answer retry(Retry reason) { return {State::retry, reason, Code::full}; }
  static constexpr Answer error(Code code) { return {State::error, Retry::none, code}; }

  // True: the operation was complete when the call returned, and no completion will be delivered
  // for it.
  [[nodiscard]] constexpr bool is_done() const { return state_ == State::done; }
  // True: the operation is under way. At its end the device delivers a completion to the endpoint's
  // queue or handler, or to the call's synchronizer.
  [[nodiscard]] constexpr bool is_posted() const { return state_ == State::posted; }
  // True: the call had no effect, because a resource is exhausted for the moment (reason()). The
  // same call may succeed later.
  [[nodiscard]] constexpr bool is_retry() const { return state_ == State::retry; }
  // True: the call had no effect, and the same call would fail again. code() says why.
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

// The counters of one device, over all its endpoints and all threads of this rank, since the device
// was opened.
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
