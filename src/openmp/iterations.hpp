// SPDX-License-Identifier: BSD-3-Clause
// Which iterations of a shared loop are still to be done, and who takes which.
//
// Iterations are numbered from 0 in the loop's own order. The owner's team takes them from the
// front, helpers from the end, in chunks of any size, until the two meet (MPI Workshare: thieves
// take from the end). Both ends lie in one word, so a claim is one compare-and-swap, and no
// iteration is given twice or left out.
//
// Limits: any number of threads claim; open() is for one, while nobody claims. Of loops of more
// than 2^31 iterations claims are rounded up to multiples of a grain.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"

namespace mh::openmp {

struct Range {
  std::uint64_t first = 0;
  std::uint64_t end = 0;  // one past the last

  [[nodiscard]] bool empty() const { return first == end; }
  [[nodiscard]] std::uint64_t size() const { return end - first; }
};

class Iterations {
 public:
  void open(std::uint64_t count) {
    count_ = count;
    grain_ = 1 + count / kMostUnits;
    units_ = grain_ == 1 ? count : (count - 1) / grain_ + 1;
    taken_.store(0, std::memory_order_relaxed);
  }

  // The next up to `most` (> 0) iterations from the front; empty if none is left.
  Range from_front(std::uint64_t most) {
    return claim(most, [](Taken now, std::uint64_t units) {
      return Claim{.units = {now.front, now.front + units}, .after = {now.front + units, now.end}};
    });
  }

  // Likewise from the end.
  Range from_end(std::uint64_t most) {
    return claim(most, [this](Taken now, std::uint64_t units) {
      const std::uint64_t end = units_ - now.end;
      return Claim{.units = {end - units, end}, .after = {now.front, now.end + units}};
    });
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  // About as many are not taken yet.
  [[nodiscard]] std::uint64_t left() const {
    const Taken now = unpack(taken_.load(std::memory_order_relaxed));
    const std::uint64_t units = units_ - now.front - now.end;
    return units == units_ ? count_ : units * grain_;
  }

 private:
  static constexpr std::uint64_t kMostUnits = 1ULL << 31U;

  struct Taken {  // units, at either end; together at most units_
    std::uint64_t front;
    std::uint64_t end;
  };
  struct Claim {
    Range units;
    Taken after;
  };

  static std::uint64_t pack(Taken taken) { return taken.front | taken.end << 32U; }
  static Taken unpack(std::uint64_t word) { return {word & 0xffffffffU, word >> 32U}; }

  // relaxed throughout: a claim hands out numbers and publishes nothing. What the loop reads was
  // published when a helper was woken, and what it wrote is when the helper leaves (lend/pool.hpp).
  template <class Cut>
  Range claim(std::uint64_t most, Cut&& cut) {
    std::uint64_t word = taken_.load(std::memory_order_relaxed);
    for (;;) {
      const Taken now = unpack(word);
      const std::uint64_t left = units_ - now.front - now.end;
      if (left == 0) return {};
      const std::uint64_t wanted = grain_ == 1 ? most : most / grain_ + 1;
      const Claim claim = cut(now, std::min(wanted, left));
      if (taken_.compare_exchange_weak(word, pack(claim.after), std::memory_order_relaxed)) {
        const bool last = claim.units.end == units_;
        return {claim.units.first * grain_, last ? count_ : claim.units.end * grain_};
      }
    }
  }

  // Written by open() alone.
  std::uint64_t count_ = 0;
  std::uint64_t grain_ = 1;
  std::uint64_t units_ = 0;
  alignas(kCacheLine) std::atomic<std::uint64_t> taken_{0};  // by all
};

}  // namespace mh::openmp
