// SPDX-License-Identifier: BSD-3-Clause
// Chooses the victim of a waiting rank: a random rank of the work board (CAB-MPI, III-C). The
// caller says which ranks count, such as those of its own NUMA node.
//
// Not thread-safe. Limit: node::kMaxRanks ranks.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/emulated.hpp"
#include "node/rank.hpp"

namespace mh::steal {

inline constexpr std::uint32_t kNobody = UINT32_MAX;

class CopyVictimPicker {
 public:
  // Ranks with different seeds draw different numbers.
  explicit CopyVictimPicker(std::uint32_t seed) : dice_(seed * 2654435761U + 1) {}

  // Draws one of the first `ranks` ranks of the board for which counts(rank) is true; kNobody if
  // there is none. Without any work on the board the cost is a load for each 64 ranks.
  template <class Counts>
  std::uint32_t pick(const node::WorkBoard& board, std::uint32_t ranks, Counts&& counts) {
    Mask found;  // NOLINT(cppcoreguidelines-pro-type-member-init): only words in use are read
    std::uint32_t victims = 0;
    for (std::uint32_t word = 0; word * 64 < ranks; ++word) {
      emulated::touch(&board.bits[word], emulated::Access::read);
      // relaxed: a hint, see WorkBoard.
      found[word] = those_of(board.bits[word].load(std::memory_order_relaxed), word * 64, counts);
      victims += static_cast<std::uint32_t>(std::popcount(found[word]));
    }
    return victims == 0 ? kNobody : nth(found, random() % victims);
  }

 private:
  using Mask = std::array<std::uint64_t, node::kMaxRanks / 64>;

  // The bits of `posted`, a word of the work board, whose ranks count; bit 0 is the rank `first`.
  template <class Counts>
  static std::uint64_t those_of(std::uint64_t posted, std::uint32_t first, Counts& counts) {
    std::uint64_t found = 0;
    for (; posted != 0; posted &= posted - 1) {
      if (counts(first + static_cast<std::uint32_t>(std::countr_zero(posted))))
        found |= posted & ~(posted - 1);
    }
    return found;
  }
  // The position of the n-th set bit (from 0). Precondition: more than n bits are set.
  static std::uint32_t nth(const Mask& bits, std::uint32_t n) {
    for (std::uint32_t word = 0;; ++word) {
      const auto here = static_cast<std::uint32_t>(std::popcount(bits[word]));
      if (n >= here) {
        n -= here;
        continue;
      }
      std::uint64_t left = bits[word];
      for (; n > 0; --n) left &= left - 1;
      return word * 64 + static_cast<std::uint32_t>(std::countr_zero(left));
    }
  }
  // xorshift is enough for a fair choice of victims.
  std::uint32_t random() {
    dice_ ^= dice_ << 13U;
    dice_ ^= dice_ >> 17U;
    dice_ ^= dice_ << 5U;
    return dice_;
  }

  std::uint32_t dice_;
};

}  // namespace mh::steal
