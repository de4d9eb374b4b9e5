// SPDX-License-Identifier: BSD-3-Clause
// Balancer::automatic: chooses `retain`, `plb_tree` or `plb_central` for the next iteration.
//
// The cost of an iteration is the time outside of tasks: the time of process() beyond the average
// time in tasks, and the time of restore(). The first two iterations use `retain`. A balancer is
// tried once if durations persist: if the growth of a rank's tasks from one iteration to the next
// is below the cost of the cheapest balancer's iterations. `plb_central` is tried if `plb_tree` was
// better than `retain`, and only in jobs of up to kMostCentral ranks, because its time grows with
// the ranks. The cheapest balancer is used otherwise. A dearer balancer is tried again once its
// extra cost is a small part of the time since its last trial. If the loads are even enough, the
// next iteration uses `retain`.
//
// All ranks pass the same numbers, so all choose the same balancer. Times are in seconds.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "manyhands/tasks/config.hpp"

namespace mh::tasks {

// The times of an iteration (one process() and the restore() before it), in seconds.
struct IterationTimes {
  double average_task_s = 0;  // of the ranks, in tasks
  double process_s = 0;       // of the slowest rank
  double restore_s = 0;       // before the iteration
  double average_load_s = 0;  // of the ranks, in tasks that restore() adds again
  double longest_load_s = 0;  // of the fullest rank, in such tasks
  // The growth of the sum of the durations of a rank's tasks since those tasks last ran: the
  // greatest growth of any rank. Negative: not known.
  double growth_s = -1;
  std::uint32_t ranks = 1;
};

class Chooser {
 public:
  // Call after each iteration, with the balancer that the iteration used. Returns the balancer of
  // the next iteration.
  Balancer after(Balancer used, const IterationTimes& times) {
    note(used, times.process_s - times.average_task_s + times.restore_s);
    // growth_s_ falls slowly, because a single growth may be small by chance: a rank whose tasks
    // have become longer runs fewer of them.
    if (times.growth_s >= 0) growth_s_ = std::max(times.growth_s, kKeepsOfGrowth * growth_s_);
    if (times.longest_load_s - times.average_load_s <= kEven * times.average_load_s) {
      return Balancer::retain;
    }
    const std::size_t best = cheapest();
    for (std::size_t other = 0; other < kCandidates.size(); ++other) {
      if (other != best && is_due(other, best, times)) return kCandidates[other];
    }
    return kCandidates[best];
  }

 private:
  struct Cost {
    double seconds = 0;
    std::uint32_t age = 0;  // iterations since the cost was measured
    bool known = false;
  };

  void note(Balancer used, double cost_s) {
    for (std::size_t i = 0; i < kCandidates.size(); ++i) {
      Cost& cost = costs_[i];
      ++cost.age;
      if (kCandidates[i] != used) continue;
      cost.seconds = cost.known ? (cost.seconds + cost_s) / 2 : cost_s;
      cost.known = true;
      cost.age = 0;
    }
  }
  // Returns the index of the cheapest balancer in kCandidates. The cost of `retain`, index 0, is
  // always known, because the first iteration uses `retain`.
  [[nodiscard]] std::size_t cheapest() const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < costs_.size(); ++i) {
      if (costs_[i].known && costs_[i].seconds < costs_[best].seconds) best = i;
    }
    return best;
  }
  [[nodiscard]] bool is_due(std::size_t other, std::size_t best,
                            const IterationTimes& times) const {
    const Cost& cost = costs_[other];
    if (cost.known) {
      const double since = cost.age * times.average_load_s;
      const double excess = cost.seconds - costs_[best].seconds;
      return cost.age >= kTryAgain && excess <= kForTrials * since;
    }
    if (kCandidates[other] == Balancer::plb_central) {
      const bool tree_is_better = costs_[1].known && costs_[1].seconds < costs_[0].seconds;
      if (times.ranks > kMostCentral || !tree_is_better) return false;
    }
    return times.growth_s >= 0 && growth_s_ < costs_[best].seconds;
  }

  static constexpr std::array kCandidates{Balancer::retain, Balancer::plb_tree,
                                          Balancer::plb_central};
  static constexpr double kEven = 0.01;           // excess of the longest load over the average
  static constexpr double kKeepsOfGrowth = 0.95;  // the part of growth_s_ that an iteration keeps
  static constexpr double kForTrials = 0.003;     // extra cost, as a part of the time
  static constexpr std::uint32_t kTryAgain = 16;  // iterations between trials, at least
  static constexpr std::uint32_t kMostCentral = 1'024;  // ranks
  std::array<Cost, kCandidates.size()> costs_;
  double growth_s_ = 0;
};

}  // namespace mh::tasks
