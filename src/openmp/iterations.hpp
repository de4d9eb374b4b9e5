// SPDX-License-Identifier: BSD-3-Clause
// The iterations of a shared loop that are left, and the helpers inside the loop.
//
// Iterations are numbered from 0 in the order of the loop. The owner's team claims iterations from
// the front, helpers from the end, in chunks of any size, until both meet (MPI Workshare: thieves
// take from the end). The iterations left and the number of helpers share one atomic word.
// Invariants:
//
//   I1  A claim is one compare-and-swap: no iteration is given twice or left out.
//   I2  A helper joins by one compare-and-swap, and only while helpers are admitted and
//       iterations are left. If either is not so and no helper is inside, none can join until
//       the owner opens or admits again. An owner that sees this state (is_settled()) needs no
//       fence: a loop without helpers costs its claims only.
//   I3  While no helper is inside and none can join (I2), open() may overwrite the word by a
//       plain store: no other thread changes the word at that time.
//
// Threads: any number claim; one calls open(), after is_settled() of the previous loop. Limits:
// kMostHelpers at a time. In loops of more than 2^27 iterations, claims are rounded up to multiples
// of a grain.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"

namespace mh::openmp {

struct IterationRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;  // one past the last

  [[nodiscard]] bool empty() const { return first == end; }
  [[nodiscard]] std::uint64_t size() const { return end - first; }
};

class Iterations {
 public:
  static constexpr std::uint64_t kMostHelpers = 255;

  // Opens a loop of `count` iterations, and at once claims up to `most` iterations from the front
  // for the caller. `admitting`: helpers may join from the beginning. Precondition: is_settled() of
  // the previous loop.
  IterationRange open(std::uint64_t count, std::uint64_t most, bool admitting) {
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
    // release: publishes the description of the loop, pairs with the acquire in join(). Claims
    // change the word later, but continue the release sequence.
    word_.store(mine | units << kBits | (admitting ? kAdmitting : 0), std::memory_order_release);
    return range_of({0, mine});
  }

  // Claims up to `most` (> 0) iterations from the front of the loop, for a thread of the owner;
  // empty if none is left.
  IterationRange from_front(std::uint64_t most) {
    return claim(most, [](std::uint64_t word, const UnpackedWord& now, std::uint64_t units) {
      return UnitClaim{.units = {now.front, now.front + units}, .after = word + units};
    });
  }

  // Claims up to `most` (> 0) iterations from the end of the loop, for a helper; empty if none is
  // left.
  IterationRange from_end(std::uint64_t most) {
    return claim(most, [](std::uint64_t word, const UnpackedWord& now, std::uint64_t units) {
      return UnitClaim{.units = {now.end - units, now.end}, .after = word - (units << kBits)};
    });
  }

  // Makes all iterations claimable once more, after a barrier of the loop's region. The iterations
  // are then virtual threads (virtual_threads.hpp), which go on behind the barrier. Precondition:
  // no iteration is left. Helpers may be inside the loop.
  void reopen() {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    std::uint64_t again = 0;
    do {
      again = (word & ~(kAdmitting - 1)) | units_ << kBits;
      // release: publishes the work done before the barrier, pairs with the acquire in see_all().
    } while (!word_.compare_exchange_weak(word, again, std::memory_order_release,
                                          std::memory_order_relaxed));
  }
  // Called after a claim: makes visible to the caller the work that other threads did before
  // reopen().
  void see_all() const { (void)word_.load(std::memory_order_acquire); }

  // ---- Helpers: who may join, who is inside -----------------------------------------------------

  [[nodiscard]] bool is_admitting() const {
    return unpack(word_.load(std::memory_order_relaxed)).admitting;
  }
  // From now on helpers may join the loop.
  void admit() {
    if (is_admitting()) return;
    // release: publishes what the owner has written since open(), pairs with the acquire in join().
    word_.fetch_or(kAdmitting, std::memory_order_release);
  }
  // From now on no further helper may join the loop; helpers inside stay.
  void refuse() { word_.fetch_and(~kAdmitting, std::memory_order_relaxed); }

  // Lets the calling helper join the loop. Returns false if helpers are not admitted, kMostHelpers
  // are inside, or no iteration is left. Only a helper that has joined may read the description of
  // the loop (SharedRegion).
  bool join() { return join(word_.load(std::memory_order_relaxed)); }
  // Called by a helper that has joined, when it leaves the loop. release: publishes the helper's
  // work, pairs with the acquire in is_settled().
  void leave() { word_.fetch_sub(kHelper, std::memory_order_release); }

  // True if no helper is inside the loop, and none can join. acquire: pairs with the release in
  // leave().
  [[nodiscard]] bool is_settled() const {
    const UnpackedWord word = unpack(word_.load(std::memory_order_acquire));
    return word.helpers == 0 && !admits(word);
  }

  // The number of helpers that have joined the loop and not left it.
  [[nodiscard]] std::uint64_t helpers() const {
    return unpack(word_.load(std::memory_order_acquire)).helpers;
  }

  // A number that changes with each claim of iterations; 0 if no iteration is left.
  [[nodiscard]] std::uint64_t progress() const {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    const UnpackedWord now = unpack(word);
    return now.front == now.end ? 0 : word;
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  // Number of iterations that no thread has claimed yet. Rounded to multiples of grain_, the number
  // of iterations of the smallest claim.
  [[nodiscard]] std::uint64_t left() const {
    const UnpackedWord now = unpack(word_.load(std::memory_order_relaxed));
    const std::uint64_t units = now.end - now.front;
    return units == units_ ? count_ : units * grain_;
  }

 private:
  friend struct IterationsTestAccess;

  static constexpr unsigned kBits = 27;
  static constexpr std::uint64_t kMostUnits = (1ULL << kBits) - 1;
  static constexpr std::uint64_t kAdmitting = 1ULL << (2 * kBits);
  static constexpr std::uint64_t kHelper = kAdmitting << 1U;
  static_assert(kHelper * kMostHelpers >> (2 * kBits + 1) == kMostHelpers, "the count fits");

  struct UnpackedWord {
    std::uint64_t front;  // units before it are claimed
    std::uint64_t end;    // units from it on are claimed
    bool admitting;
    std::uint64_t helpers;  // inside
  };
  struct UnitClaim {
    IterationRange units;
    std::uint64_t after;  // the word after the claim
  };

  static UnpackedWord unpack(std::uint64_t word) {
    return {.front = word & kMostUnits,
            .end = word >> kBits & kMostUnits,
            .admitting = (word & kAdmitting) != 0,
            .helpers = word / kHelper};
  }
  static bool admits(const UnpackedWord& word) {
    return word.admitting && word.front != word.end && word.helpers < kMostHelpers;
  }

  // Lets the calling helper join the loop, or a later one that the owner has opened meanwhile.
  // False if the loop admits no helper. `word`: a value of word_ that the caller has read; word_
  // may have changed since.
  bool join(std::uint64_t word) {
    while (admits(unpack(word))) {
      // acquire: pairs with the releases in open() and admit(). If the owner has opened another
      // loop since `word` was read, the helper has joined that loop.
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
  [[nodiscard]] IterationRange range_of(const IterationRange& units) const {
    if (grain_ == 1) [[likely]]
      return units;
    return {units.first * grain_, units.end == units_ ? count_ : units.end * grain_};
  }

  // relaxed throughout: a claim hands out numbers and publishes nothing. open() or admit() has
  // published the data that the loop reads; leave() publishes a helper's writes.
  template <class Take>
  IterationRange claim(std::uint64_t most, Take&& take) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const UnpackedWord now = unpack(word);
      const std::uint64_t left = now.end - now.front;
      if (left == 0) return {};
      const UnitClaim claim = take(word, now, std::min(in_units(most), left));
      if (word_.compare_exchange_weak(word, claim.after, std::memory_order_relaxed)) {
        return range_of(claim.units);
      }
    }
  }

  // The loop, written by open() only. Claims are counted in units of grain_ iterations, of which
  // the loop has units_.
  std::uint64_t count_ = 0;
  std::uint64_t grain_ = 1;
  std::uint64_t units_ = 0;
  alignas(kCacheLine) std::atomic<std::uint64_t> word_{0};  // written by all threads
};

}  // namespace mh::openmp
