// SPDX-License-Identifier: BSD-3-Clause
// Chooses the victim of a waiting rank: a random rank of those that the work board shows to have
// open jobs (CAB-MPI, III-C). The caller says which ranks count, such as those of its own NUMA
// node.
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
  // Starts the random numbers. Each rank passes another seed, so that ranks draw different victims.
  explicit CopyVictimPicker(std::uint32_t seed) : dice_(seed * 2654435761U + 1) {}

  // Draws a random rank of those below `ranks` that `board` shows to have an open job and for which
  // counts(rank) is true; kNobody if there is none. If no rank has an open job, the cost is a load
  // for each 64 ranks.
  template <class Counts>
  std::uint32_t pick(const node::WorkBoard& board, std::uint32_t ranks, Counts&& counts) {
    Mask found;  // NOLINT(cppcoreguidelines-pro-type-member-init): only words in use are read
    std::uint32_t victims = 0;
    for (std::uint32_t word = 0; word * 64 < ranks; ++word) {
      emulated::touch(&board.bits[word], emulated::Access::read);
      // relaxed: a hint, since a job itself decides whether a chunk is left.
      found[word] = those_of(board.bits[word].load(std::memory_order_relaxed), word * 64, counts);
      victims += static_cast<std::uint32_t>(std::popcount(found[word]));
    }
    return victims == 0 ? kNobody : nth(found, random() % victims);
  }

 private:
  using Mask = std::array<std::uint64_t, node::kMaxRanks / 64>;

  // Returns those bits of `posted`, a word of the work board, for whose ranks counts(rank) is true.
  // A bit is set if its rank has an open job; bit 0 stands for the rank `first`.
  template <class Counts>
  static std::uint64_t those_of(std::uint64_t posted, std::uint32_t first, Counts& counts) {
    std::uint64_t found = 0;
    for (; posted != 0; posted &= posted - 1) {
      if (counts(first + static_cast<std::uint32_t>(std::countr_zero(posted))))
        found |= posted & ~(posted - 1);
    }
    return found;
  }
  // Returns the position of the n-th set bit of a mask, counted from 0. Precondition: more than n
  // bits are set.
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
  // A generator of random numbers (xorshift), good enough for a fair choice of victims.
  std::uint32_t random() {
    dice_ ^= dice_ << 13U;
    dice_ ^= dice_ >> 17U;
    dice_ ^= dice_ << 5U;
    return dice_;
  }

  std::uint32_t dice_;
};

}  // namespace mh::steal
