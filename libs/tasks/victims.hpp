// SPDX-License-Identifier: BSD-3-Clause
// The victims of a thief, one after the other (VictimChoice).
//
// Ranks of a NUMA node, and of a node, have consecutive numbers. After a successful steal the order
// restarts. The order is deterministic for a seed. Threads: the thief's.
#pragma once

#include <cstdint>

#include "manyhands/tasks/config.hpp"

namespace mh::tasks {

struct Places {
  std::uint32_t ranks = 1;
  std::uint32_t per_node = 1;
  std::uint32_t per_numa = 1;
};

class Victims {
 public:
  Victims(VictimChoice choice, std::uint32_t rank, std::uint64_t seed)
      : state_(seed * 0x9E3779B97F4A7C15U + rank + 1), rank_(rank), choice_(choice) {}

  // Returns the rank to steal from next, never this rank itself. There must be at least two ranks.
  std::uint32_t next(const Places& places) {
    const std::uint32_t attempt = attempts_++;
    if (choice_ == VictimChoice::nearest) return near(attempt, places.ranks);
    if (choice_ == VictimChoice::hierarchical) {
      const std::uint32_t turn = attempt % kTurns;
      if (turn < kNumaTurns) return within(places.per_numa, places.ranks);
      if (turn < kNodeTurns) return within(places.per_node, places.ranks);
    }
    return within(places.ranks, places.ranks);
  }
  void succeeded() { attempts_ = 0; }

 private:
  // VictimChoice::hierarchical: of each kTurns successive attempts, the first kNumaTurns choose a
  // victim on the thief's NUMA node. The attempts after them, up to number kNodeTurns, choose one
  // on its node, and the last ones among all ranks.
  static constexpr std::uint32_t kNumaTurns = 2;
  static constexpr std::uint32_t kNodeTurns = 4;
  static constexpr std::uint32_t kTurns = 8;

  // Returns a random other rank of this rank's block of `size` consecutive ranks, or of all ranks
  // if the block has no other.
  std::uint32_t within(std::uint32_t size, std::uint32_t ranks) {
    std::uint32_t first = rank_ / size * size;
    std::uint32_t count = ranks - first < size ? ranks - first : size;
    if (count < 2) {
      first = 0;
      count = ranks;
    }
    const std::uint32_t other = first + draw(count - 1);
    return other < rank_ ? other : other + 1;
  }
  [[nodiscard]] std::uint32_t near(std::uint32_t attempt, std::uint32_t ranks) const {
    const std::uint32_t step = attempt % (ranks - 1);
    const std::uint32_t distance = step / 2 + 1;
    return step % 2 == 0 ? (rank_ + distance) % ranks : (rank_ + ranks - distance) % ranks;
  }
  // Returns a random number below `limit`, from the generator SplitMix64.
  std::uint32_t draw(std::uint32_t limit) {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return static_cast<std::uint32_t>(((z ^ (z >> 31U)) >> 32U) * limit >> 32U);
  }

  std::uint64_t state_;
  std::uint32_t rank_;
  std::uint32_t attempts_ = 0;
  VictimChoice choice_;
};

}  // namespace mh::tasks
