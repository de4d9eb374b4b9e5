// SPDX-License-Identifier: BSD-3-Clause
// The outcome of a call that Manyhands may carry out itself.
#pragma once

#include <limits>
#include <optional>

namespace mh::mpi {

// The return code of a call, or nothing if the library must get the call. One word: an inlined
// std::optional<int> is built in memory by two stores, and the load that follows waits for both (6
// ns of the 13 of a put).
class CallResult {
 public:
  constexpr CallResult(int code) : code_(code) {}
  constexpr CallResult(std::nullopt_t /*none*/) : code_(kNone) {}
  [[nodiscard]] constexpr explicit operator bool() const { return code_ != kNone; }
  [[nodiscard]] constexpr int operator*() const { return code_; }

 private:
  static constexpr int kNone = std::numeric_limits<int>::min();  // no MPI error code
  int code_;
};

}  // namespace mh::mpi
