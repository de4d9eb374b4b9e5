// SPDX-License-Identifier: BSD-3-Clause
// A simulated node: ranks with a loop each, and those that are done lend their cores to the others.
//
// The rules are those of src/lend and src/openmp: chunks, and when an offer is worth while. A
// lender that finds all helpers at work goes on to the next rank, and the owner gets further
// helpers at the end of a unit. Whom a lender helps and for how long is decided by
// src/lend/victim.hpp and src/lend/unit_length.hpp themselves. What is not: time. A step of a rank
// or a helper takes what its iterations cost, a hand-over what it was measured to take, and work
// far from its memory is slower by a factor. Caches, memory bandwidth and the claims themselves
// cost nothing here, so results say how policies differ, not how long a program takes.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "lend/channel.hpp"
#include "lend/unit_length.hpp"
#include "lend/victim.hpp"

namespace mh::victims {

// Nanoseconds of each iteration, by rank.
using Costs = std::vector<std::vector<double>>;

class SimulatedNode {
 public:
  // Ranks are dealt out to `numa_nodes` in equal blocks.
  SimulatedNode(const Costs& costs, std::uint32_t numa_nodes, VictimPolicy policy,
                std::uint64_t seed);
  // Nanoseconds until all loops are done.
  double run();

 private:
  struct Rank {
    std::vector<double> costs;
    std::uint32_t numa = 0;
    std::size_t front = 0;  // iterations taken by the rank, and by helpers
    std::size_t end = 0;
    std::size_t review_at = 0;
    double rate = 0;        // of the latest chunk: nanoseconds an iteration
    double offer_ends = 0;  // 0: nothing is offered
    std::uint32_t helpers = 0;
    std::uint32_t most_helpers = lend::kHelpersAtOnce;
    bool all_at_work = false;  // a lender has found no free helper
    bool done = false;
    lend::CoreVictimPicker choice;
    lend::UnitLength unit;
    // The lender's state.
    std::uint32_t victim = kNobody;
    std::uint32_t last_victim = kNobody;
    double lent_at = 0;
    double deadline = 0;
  };
  struct Event {
    double at;
    std::uint32_t rank;
    bool operator>(const Event& other) const { return at > other.at; }
  };
  static constexpr std::uint32_t kNobody = ~0U;

  void step(std::uint32_t rank, double now);
  void work(std::uint32_t rank, double now);
  void look_for_work(std::uint32_t rank, double now);
  void help(std::uint32_t rank, double now);
  void give_back(std::uint32_t rank, double now);
  [[nodiscard]] bool may_help(std::uint32_t rank, double now) const;
  [[nodiscard]] std::uint32_t best_offer(std::uint32_t lender, double now,
                                         const std::vector<std::uint32_t>& full);
  [[nodiscard]] std::uint32_t choose(std::uint32_t lender, double now);
  void grow(Rank& owner) const;
  static double take(Rank& owner, std::size_t first, std::size_t count);
  void at(double when, std::uint32_t rank) { events_.push({when, rank}); }

  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint32_t unfinished_;
  double over_ = 0;
};

}  // namespace mh::victims
