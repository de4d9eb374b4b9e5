// SPDX-License-Identifier: BSD-3-Clause
// A set of small numbers from 0 to kSlots - 1, such as the numbers of the entries (slots) of a
// table that are in use: one bit for each number. Any thread.
//
// acquire: take() sets the bit; pairs with the release in give_back(), which clears it. The next
// user of a slot sees everything that the last user did with it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace mh {

template <std::uint32_t kSlots>
class SlotSet {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Takes the lowest free number below `most`, and returns it; kNone if all of them are in use.
  std::uint32_t take(std::uint32_t most = kSlots) {
    for (std::uint32_t first = 0; first < most; first += 64) {
      std::atomic<std::uint64_t>& word = words_[first / 64];
      std::uint64_t bits = word.load(std::memory_order_relaxed);
      for (;;) {
        const auto slot = first + static_cast<std::uint32_t>(std::countr_one(bits));
        if (slot >= std::min(most, first + 64)) break;
        if (word.compare_exchange_weak(bits, bits | bit_of(slot), std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
          return slot;
        }
      }
    }
    return kNone;
  }
  void give_back(std::uint32_t slot) {
    words_[slot / 64].fetch_and(~bit_of(slot), std::memory_order_release);
  }
  // Marks a slot as in use without take(), for a caller that owns the slot already.
  void add(std::uint32_t slot) {
    words_[slot / 64].fetch_or(bit_of(slot), std::memory_order_relaxed);
  }

  // True if a slot is in use. relaxed: the answer is a hint, since another thread may take or give
  // back a slot at any time.
  [[nodiscard]] bool any() const {
    return std::ranges::any_of(
        words_, [](const auto& word) { return word.load(std::memory_order_relaxed) != 0; });
  }
  // Returns the first slot in use for which wanted(slot) is true; kNone if there is none.
  template <class Wanted>
  std::uint32_t find(Wanted&& wanted) const {
    for (std::uint32_t first = 0; first < kSlots; first += 64) {
      std::uint64_t bits = words_[first / 64].load(std::memory_order_acquire);
      for (; bits != 0; bits &= bits - 1) {
        const auto slot = first + static_cast<std::uint32_t>(std::countr_zero(bits));
        if (wanted(slot)) return slot;
      }
    }
    return kNone;
  }

 private:
  static std::uint64_t bit_of(std::uint32_t slot) { return 1ULL << (slot % 64); }

  std::array<std::atomic<std::uint64_t>, (kSlots + 63) / 64> words_{};
};

}  // namespace mh
