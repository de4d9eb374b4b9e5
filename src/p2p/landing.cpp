// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/landing.hpp"

#include <algorithm>
#include <bit>

namespace mh::p2p {

Landing* Landings::open(void* buffer, std::uint64_t capacity) {
  for (std::uint32_t word = 0; word < kWords; ++word) {
    std::uint64_t bits = taken_[word].load(std::memory_order_relaxed);
    while (~bits != 0) {
      const auto bit = static_cast<std::uint32_t>(std::countr_one(bits));
      if (!taken_[word].compare_exchange_weak(bits, bits | (1ULL << bit), std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
        continue;
      }
      const std::uint32_t index = word * 64 + bit;
      Landing& landing = board_->landings[index];
      landing.address.store(reinterpret_cast<std::uint64_t>(buffer), std::memory_order_relaxed);
      landing.capacity.store(capacity, std::memory_order_relaxed);
      landing.state.store(LandingState::open, std::memory_order_release);
      if (board_->extent.load(std::memory_order_relaxed) <= index) {
        board_->extent.store(index + 1, std::memory_order_relaxed);
      }
      return &landing;
    }
  }
  return nullptr;
}

void Landings::close(Landing* landing) {
  landing->state.store(LandingState::free, std::memory_order_release);
  const auto index = static_cast<std::uint32_t>(landing - board_->landings);
  taken_[index / 64].fetch_and(~(1ULL << (index % 64)), std::memory_order_release);
}

}  // namespace mh::p2p
