// SPDX-License-Identifier: BSD-3-Clause
// Which iterations of a shared loop are still to be done, who takes which, and how many helpers are
// inside.
//
// Iterations are numbered from 0 in the loop's own order. The owner's team takes them from the
// front, helpers from the end, in chunks of any size, until the two meet (MPI Workshare: thieves
// take from the end). What is left, and the helpers that may take of it, lie in one word, so that
//
//   I1  a claim is one compare-and-swap: no iteration is given twice or left out;
//   I2  a helper comes in by one, too, and only while helpers are admitted and something is left;
//       once that is over and nobody is inside, it stays so until the owner opens or admits again:
//       an owner that reads it has no fence to pass, and what a loop that nobody joins costs is its
//       claims;
//   I3  open() may overwrite the word by a plain store: by I2 nobody else changes it just then.
//
// Limits: any number of threads claim; open() is for one, while the loop before is settled().
// kMostHelpers at a time. Of loops of more than 2^29 iterations claims are rounded up to multiples
// of a grain.
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
  static constexpr std::uint64_t kMostHelpers = 15;

  // The first up to `most` iterations are the caller's at once.
  Range open(std::uint64_t count, std::uint64_t most, bool admitting) {
    std::uint64_t grain = 1;
    std::uint64_t units = count;
    if (count > kMostUnits) [[unlikely]] {
      grain = count / kMostUnits + 1;
      units = (count - 1) / grain + 1;
    }
    count_ = count;
    grain_ = grain;
    units_ = units;
    const std::uint64_t mine = most == 0 ? 0 : std::min(in_units(most), units);
    // release: pairs with join(); what describes the loop is there. Claims continue the sequence.
    word_.store(mine | units << kBits | (admitting ? kAdmitting : 0), std::memory_order_release);
    return range_of({0, mine});
  }

  // The next up to `most` (> 0) iterations from the front; empty if none is left.
  Range from_front(std::uint64_t most) {
    return claim(most, [](std::uint64_t word, const Word& now, std::uint64_t units) {
      return Claim{.units = {now.front, now.front + units}, .after = word + units};
    });
  }

  // Likewise from the end.
  Range from_end(std::uint64_t most) {
    return claim(most, [](std::uint64_t word, const Word& now, std::uint64_t units) {
      return Claim{.units = {now.end - units, now.end}, .after = word - (units << kBits)};
    });
  }

  // ---- Helpers

  [[nodiscard]] bool admitting() const {
    return unpack(word_.load(std::memory_order_relaxed)).admitting;
  }
  // From now on they may come in.
  void admit() {
    if (admitting()) return;
    // release: pairs with join(), for what was written since open().
    word_.fetch_or(kAdmitting, std::memory_order_release);
  }
  // No more of them.
  void refuse() { word_.fetch_and(~kAdmitting, std::memory_order_relaxed); }

  // A helper comes in; false: there is nothing for it. The loop's description may be looked at
  // after this only.
  bool join() { return join(word_.load(std::memory_order_relaxed)); }
  // It leaves. release: pairs with settled(); what it did is done.
  void part() { word_.fetch_sub(kHelper, std::memory_order_release); }

  // No helper is inside, and none can come in any more.
  [[nodiscard]] bool settled() const {
    const Word word = unpack(word_.load(std::memory_order_acquire));
    return word.helpers == 0 && !admits(word);
  }

  // Helpers inside.
  [[nodiscard]] std::uint64_t helpers() const {
    return unpack(word_.load(std::memory_order_acquire)).helpers;
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  // About as many are not taken yet.
  [[nodiscard]] std::uint64_t left() const {
    const Word now = unpack(word_.load(std::memory_order_relaxed));
    const std::uint64_t units = now.end - now.front;
    return units == units_ ? count_ : units * grain_;
  }

 private:
  friend struct IterationsTestAccess;

  static constexpr unsigned kBits = 29;
  static constexpr std::uint64_t kMostUnits = (1ULL << kBits) - 1;
  static constexpr std::uint64_t kAdmitting = 1ULL << (2 * kBits);
  static constexpr std::uint64_t kHelper = kAdmitting << 1U;
  static_assert(kHelper * kMostHelpers >> (2 * kBits + 1) == kMostHelpers, "the count fits");

  struct Word {
    std::uint64_t front;  // units before it are taken
    std::uint64_t end;    // and from it on
    bool admitting;
    std::uint64_t helpers;  // inside
  };
  struct Claim {
    Range units;
    std::uint64_t after;  // the word
  };

  static Word unpack(std::uint64_t word) {
    return {.front = word & kMostUnits,
            .end = word >> kBits & kMostUnits,
            .admitting = (word & kAdmitting) != 0,
            .helpers = word / kHelper};
  }
  static bool admits(const Word& word) {
    return word.admitting && word.front != word.end && word.helpers < kMostHelpers;
  }

  // `word`: as it was seen.
  bool join(std::uint64_t word) {
    while (admits(unpack(word))) {
      // acquire: pairs with open() and admit(). The word may have become another loop's: then that
      // is the loop that was joined.
      if (word_.compare_exchange_weak(word, word + kHelper, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] std::uint64_t in_units(std::uint64_t iterations) const {
    return grain_ == 1 ? iterations : iterations / grain_ + 1;
  }
  [[nodiscard]] Range range_of(const Range& units) const {
    if (grain_ == 1) [[likely]]
      return units;
    return {units.first * grain_, units.end == units_ ? count_ : units.end * grain_};
  }

  // relaxed throughout: a claim hands out numbers and publishes nothing. What the loop reads was
  // published by open() or admit(), and what a helper wrote is when it parts.
  template <class Take>
  Range claim(std::uint64_t most, Take&& take) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const Word now = unpack(word);
      const std::uint64_t left = now.end - now.front;
      if (left == 0) return {};
      const Claim claim = take(word, now, std::min(in_units(most), left));
      if (word_.compare_exchange_weak(word, claim.after, std::memory_order_relaxed)) {
        return range_of(claim.units);
      }
    }
  }

  // Written by open() alone.
  std::uint64_t count_ = 0;
  std::uint64_t grain_ = 1;
  std::uint64_t units_ = 0;
  alignas(kCacheLine) std::atomic<std::uint64_t> word_{0};  // by all
};

}  // namespace mh::openmp
