// SPDX-License-Identifier: BSD-3-Clause
// Balancer::automatic: whether the next iteration goes by `retain` or by `plb_tree`.
//
// The cost of an iteration is the time that was not spent in tasks: of process(), beyond the
// average load, and of restore(). Either balancer is tried once; then the one whose iterations have
// cost less goes on, and the other is tried again from time to time. Where what the ranks ran is
// even enough already there is nothing to balance, and tasks stay where they ran.
//
// All ranks are given the same numbers, so all choose the same. Seconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "manyhands/tasks/config.hpp"

namespace mh::tasks {

class Chooser {
 public:
  // The last iteration, with the restore() that led to it.
  void measured(Balancer used, double cost_s) {
    if (used != Balancer::retain && used != Balancer::plb_tree) return;
    Cost& cost = costs_[index(used)];
    cost.seconds = cost.known ? (cost.seconds + cost_s) / 2 : cost_s;
    cost.known = true;
    cost.age = 0;
    Cost& other = costs_[1 - index(used)];
    ++other.age;
  }
  // `imbalance_s`: the longest load, with each task where it ran, beyond the average load.
  [[nodiscard]] Balancer next(double imbalance_s, double average_s) const {
    const Cost& retain = costs_[0];
    const Cost& balance = costs_[1];
    if (imbalance_s <= kEven * average_s) return Balancer::retain;
    if (!balance.known || balance.age >= kTryAgain) return Balancer::plb_tree;
    if (!retain.known || retain.age >= kTryAgain) return Balancer::retain;
    return retain.seconds <= balance.seconds ? Balancer::retain : Balancer::plb_tree;
  }

 private:
  struct Cost {
    double seconds = 0;
    std::uint32_t age = 0;  // iterations since it was measured
    bool known = false;
  };
  static std::size_t index(Balancer balancer) { return balancer == Balancer::retain ? 0 : 1; }

  static constexpr double kEven = 0.01;
  static constexpr std::uint32_t kTryAgain = 16;  // iterations
  std::array<Cost, 2> costs_;                     // retain, plb_tree
};

}  // namespace mh::tasks
