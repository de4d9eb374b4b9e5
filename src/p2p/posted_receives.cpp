// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/posted_receives.hpp"

#include <algorithm>
#include <bit>

namespace mh::p2p {

PostedReceive* PostedReceives::open(void* buffer, std::uint64_t capacity) {
  for (std::uint32_t word = 0; word < kWords; ++word) {
    std::uint64_t bits = taken_[word].load(std::memory_order_relaxed);
    while (~bits != 0) {
      const auto bit = static_cast<std::uint32_t>(std::countr_one(bits));
      if (!taken_[word].compare_exchange_weak(bits, bits | (1ULL << bit), std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
        continue;
      }
      const std::uint32_t index = word * 64 + bit;
      PostedReceive& posted = board_->posted_receives[index];
      posted.address.store(reinterpret_cast<std::uint64_t>(buffer), std::memory_order_relaxed);
      posted.capacity.store(capacity, std::memory_order_relaxed);
      posted.state.store(PostedState::open, std::memory_order_release);
      if (board_->extent.load(std::memory_order_relaxed) <= index) {
        board_->extent.store(index + 1, std::memory_order_relaxed);
      }
      return &posted;
    }
  }
  return nullptr;
}

void PostedReceives::close(PostedReceive* posted) {
  posted->state.store(PostedState::free, std::memory_order_release);
  const auto index = static_cast<std::uint32_t>(posted - board_->posted_receives);
  taken_[index / 64].fetch_and(~(1ULL << (index % 64)), std::memory_order_release);
}

}  // namespace mh::p2p
