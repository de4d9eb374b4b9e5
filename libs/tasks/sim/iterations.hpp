// SPDX-License-Identifier: BSD-3-Clause
// The iterations of a simulated collection: process() and restore() in turn, by the library's rules
// (retention.hpp, chooser.hpp).
//
// Times are the simulated machine's. Threads: one.
#pragma once

#include <span>

#include "manyhands/tasks/config.hpp"
#include "tasks/balance.hpp"
#include "tasks/chooser.hpp"
#include "tasks/sim/balancing.hpp"
#include "tasks/sim/simulation.hpp"

namespace mh::tasks::sim {

class SimulatedIterations {
 public:
  // `machine` must outlive the object. `seeds`: the first tasks of each rank, in the order in which
  // a program would add() them.
  SimulatedIterations(const MachineModel& machine, const Rules& rules, const Balance& balance,
                      Balancer balancer, Seeds seeds);

  // Simulates process(), then restore(). `work`: the tasks and their durations, which may differ
  // from iteration to iteration.
  SimulatedRun next(const Work& work);

  [[nodiscard]] Balancer used() const { return last_; }                 // by the last iteration
  [[nodiscard]] double restore_s() const { return restore_s_; }         // after the last iteration
  [[nodiscard]] const Balanced& balanced() const { return balanced_; }  // by the last restore()
  // The number of tasks that the last simulated iteration had to run, seeds and tasks that tasks
  // add.
  [[nodiscard]] std::uint64_t expected() const { return expected_; }
  // Call before next(). The iteration after that next() runs each task on the rank that ran it,
  // without steals and without a balancer: the second iteration of figure 6 of the HPDC 2012 paper.
  void only_seeded() { only_seeded_ = true; }

 private:
  void restore(Simulation& simulation, const SimulatedRun& outcome);
  // Returns the change of the durations of the tasks that a rank has run, since they last ran.
  // CollectionCore::keep() in core.cpp computes the same for a real rank.
  [[nodiscard]] double growth_of(const std::vector<Timed<TaskId>>& own);
  [[nodiscard]] Balancer choose(const std::vector<std::vector<Timed<TaskId>>>& executed,
                                const SimulatedRun& outcome);

  const MachineModel& machine_;
  Rules rules_;
  Balance balance_;
  bool automatic_;
  Balancer used_;
  Balancer last_ = Balancer::none;
  Chooser chooser_;
  Seeds seeds_;
  Balanced balanced_;
  double restore_s_ = 0;
  std::uint64_t expected_ = 0;
  std::vector<Bin> last_bins_;  // by task; with `automatic` only
  bool measured_ = false;
  bool only_seeded_ = false;
  bool is_seeded_ = false;  // the next iteration is the seeded one
};

}  // namespace mh::tasks::sim
