// SPDX-License-Identifier: BSD-3-Clause
// A simulated node: each rank has a loop, and a rank whose loop is done lends its cores to other
// ranks. A rank has a core for each thread of its team.
//
// Chunks and offers follow the rules of src/lend and src/openmp. An offer is the time at which the
// loop would be done without helpers. A lender that finds all helpers of a rank at work goes on to
// another rank. The owner of these helpers gets further helpers when one of them ends its unit. The
// code of src/lend/victim.hpp and src/lend/unit_length.hpp chooses the victim and the length of a
// unit. Time is simulated: a step takes the cost of its iterations, a hand-over takes its measured
// time, and work far from its memory is slower by a factor. Caches, memory bandwidth and claims
// cost nothing, so results say how policies differ, not how long a program takes.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "lend/channel.hpp"
#include "lend/unit_length.hpp"
#include "lend/victim.hpp"

namespace mh::victims {

// The costs in nanoseconds of each iteration of each rank's loop, by rank.
using Costs = std::vector<std::vector<double>>;

class SimulatedNode {
 public:
  // Divides the ranks over `numa_nodes` NUMA nodes in equal blocks of consecutive ranks. `threads`:
  // the size of each rank's team.
  SimulatedNode(const Costs& costs, std::uint32_t numa_nodes, VictimPolicy policy,
                std::uint64_t seed, std::uint32_t threads = 1);
  // Returns the simulated nanoseconds until the loops of all ranks are done.
  double run();

 private:
  // The loop of a rank.
  struct Rank {
    std::vector<double> costs;
    std::uint32_t numa = 0;
    std::size_t front = 0;      // first iteration left; the rank takes chunks from this end
    std::size_t end = 0;        // end of the iterations left; helpers take chunks from this end
    std::size_t review_at = 0;  // value of `front` at which the rank renews its offer
    double rate = 0;            // nanoseconds an iteration, of the latest chunk
    double offer_ends = 0;      // time at which the loop would be done; 0: no offer
    std::uint32_t team = 0;     // threads of the rank that have not found the loop empty
    std::uint32_t helpers = 0;
    std::uint32_t most_helpers = lend::kHelpersAtOnce;
    bool all_at_work = false;  // a lender has found no free helper of this rank
    bool done = false;
  };
  // The core of a thread. It is lent once its rank's loop is done.
  struct Core {
    std::uint32_t home;  // its rank
    lend::CoreVictimPicker choice;
    lend::UnitLength unit;
    std::uint32_t victim = kNobody;
    std::uint32_t last_victim = kNobody;
    double lent_at = 0;
    double deadline = 0;
  };
  struct Event {
    double at;
    std::uint32_t core;
    bool operator>(const Event& other) const { return at > other.at; }
  };
  static constexpr std::uint32_t kNobody = ~0U;

  void step(std::uint32_t core, double now);
  void work(std::uint32_t core, double now);
  void end_loop(std::uint32_t rank, double now);
  void look_for_work(std::uint32_t core, double now);
  void help(std::uint32_t core, double now);
  void give_back(std::uint32_t core, double now);
  [[nodiscard]] bool may_help(std::uint32_t rank, double now) const;
  [[nodiscard]] std::uint32_t best_offer(std::uint32_t core, double now,
                                         const std::vector<std::uint32_t>& full);
  [[nodiscard]] std::uint32_t choose(std::uint32_t core, double now);
  void grow(Rank& owner) const;
  static double take(Rank& owner, std::size_t first, std::size_t count);
  void at(double when, std::uint32_t core) { events_.push({when, core}); }

  std::vector<Rank> ranks_;
  std::vector<Core> cores_;  // those of rank 0 first
  std::uint32_t threads_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint32_t unfinished_;
  double over_ = 0;
};

}  // namespace mh::victims
