// SPDX-License-Identifier: BSD-3-Clause
// Bounds the cost of a heap that the user did not ask for.
//
// In a virtual machine the first touch of a shared page takes half a microsecond longer than that
// of a private page. Memory that is used again costs nothing more. MH_HEAP=auto therefore bounds
// the *fresh* memory, of which no page was touched before: kAtOnce, and kPerSecond for each second
// since begin(). These two bounds cost at most 8 ms and a quarter of a percent of the run. A block
// may take a quarter of what is left of this budget, so that one large array does not exhaust the
// budget of many message buffers.
//
// Not thread-safe: the heap's lock guards it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mh::heap {

class Budget {
 public:
  static constexpr std::uint64_t kAtOnce = 64U << 20U;     // bytes
  static constexpr std::uint64_t kPerSecond = 20U << 20U;  // bytes
  static constexpr std::uint64_t kShare = 4;  // a block may take 1/kShare of what is left
  static constexpr std::uint64_t kLargestAtOnce = kAtOnce / kShare;

  // Bounds fresh (untouched) memory from this call on. Without this call fresh memory has no bound.
  void begin(std::uint64_t now_ms) {
    bounded_ = true;
    begun_ms_ = now_ms;
  }

  // Allows a bounded heap no fresh memory from this call on: no peer will map the heap.
  void end() { ended_ = bounded_; }

  // Whether the budget at time `now_ms` lets a single block take `bytes` of fresh (untouched)
  // memory.
  [[nodiscard]] bool allows(std::uint64_t bytes, std::uint64_t now_ms) const {
    if (!bounded_) return true;
    if (ended_) return false;
    const std::uint64_t earned = kAtOnce + (now_ms - begun_ms_) * kPerSecond / 1000;
    return bytes <= (earned - std::min(earned, spent_)) / kShare;
  }
  void spend(std::uint64_t bytes) { spent_ += bytes; }

 private:
  bool bounded_ = false;
  bool ended_ = false;
  std::uint64_t begun_ms_ = 0;
  std::uint64_t spent_ = 0;
};

}  // namespace mh::heap
