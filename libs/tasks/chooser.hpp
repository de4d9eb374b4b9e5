// SPDX-License-Identifier: BSD-3-Clause
// Balancer::automatic: chooses `retain` or `plb_tree` for the next iteration.
//
// The cost of an iteration is the time outside of tasks: the time of process() beyond the average
// time in tasks, and the time of restore(). Each balancer is tried once. Then the balancer with the
// cheaper iterations goes on, and the other is tried again from time to time. If the loads are even
// enough, tasks stay where they ran.
//
// All ranks pass the same numbers, so all choose the same balancer. Times are in seconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "manyhands/tasks/config.hpp"

namespace mh::tasks {

// The times of an iteration, in seconds.
struct IterationTimes {
  double average_task_s = 0;  // of the ranks, in tasks
  double process_s = 0;       // of the slowest rank
  double restore_s = 0;       // before the iteration
  double average_load_s = 0;  // of the tasks that restore() adds again
  double longest_load_s = 0;
};

class Chooser {
 public:
  // Call after each iteration. Returns the balancer of the next.
  Balancer after(Balancer used, const IterationTimes& times) {
    measured(used, times.process_s - times.average_task_s + times.restore_s);
    return next(times.longest_load_s - times.average_load_s, times.average_load_s);
  }
  // Call after each iteration. `cost_s` includes the restore() before the iteration.
  void measured(Balancer used, double cost_s) {
    if (used != Balancer::retain && used != Balancer::plb_tree) return;
    Cost& cost = costs_[index(used)];
    cost.seconds = cost.known ? (cost.seconds + cost_s) / 2 : cost_s;
    cost.known = true;
    cost.age = 0;
    Cost& other = costs_[1 - index(used)];
    ++other.age;
  }
  // `imbalance_s`: the longest load minus the average load, with each task where it ran.
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
