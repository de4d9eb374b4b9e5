// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/sim/iterations.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "tasks/retention.hpp"

namespace mh::tasks::sim {
namespace {

// Returns the seconds of one reduction over all ranks in a restore() that chooses or balances: up a
// binary tree and down again.
double reduction_s(const MachineModel& machine, std::size_t ranks) {
  const auto rounds = 2 * static_cast<std::uint64_t>(std::bit_width(ranks));
  return static_cast<double>(rounds * (2 * machine.overhead_ns + machine.latency_ns)) * 1e-9;
}

}  // namespace

SimulatedIterations::SimulatedIterations(const MachineModel& machine, const Rules& rules,
                                         const Balance& balance, Balancer balancer, Seeds seeds)
    : machine_(machine),
      rules_(rules),
      balance_(balance),
      automatic_(balancer == Balancer::automatic),
      used_(first_balancer(balancer)),
      seeds_(std::move(seeds)) {}

SimulatedRun SimulatedIterations::next(const Work& work) {
  rules_.steal = may_steal(used_, measured_) && !std::exchange(is_seeded_, false);
  expected_ = work.children.empty() ? 0 : work.seconds.size();
  for (const auto& own : work.children.empty() ? seeds_ : Seeds{}) expected_ += own.size();
  Simulation simulation(machine_, rules_, work, seeds_);
  SimulatedRun outcome = simulation.run();
  last_ = used_;
  restore(simulation, outcome);
  return outcome;
}

void SimulatedIterations::restore(Simulation& simulation, const SimulatedRun& outcome) {
  Seeds executed = simulation.take_executed();
  if (used_ == Balancer::steal) return;
  std::vector<std::vector<Timed<TaskId>>> timed(executed.size());
  for (std::size_t rank = 0; rank < executed.size(); ++rank) {
    for (const TaskId task : executed[rank]) {
      timed[rank].push_back({task, Bin(static_cast<double>(simulation.measured(task)))});
    }
  }
  // choose() is called before restore_s_ changes, because it counts the time of the restore()
  // before this iteration.
  if (automatic_) used_ = choose(timed, outcome);
  restore_s_ = automatic_ ? 2 * reduction_s(machine_, executed.size()) : 0;
  measured_ = true;
  is_seeded_ = std::exchange(only_seeded_, false);
  if (moves_tasks(used_) && !is_seeded_) {
    balanced_ = balance(scheme_of(used_), machine_, balance_, timed);
    restore_s_ += balanced_.seconds;
  }
  for (const auto& own : automatic_ ? timed : std::vector<std::vector<Timed<TaskId>>>{}) {
    for (const auto& one : own) last_bins_[one.task] = one.bin;
  }
  for (std::size_t rank = 0; rank < timed.size(); ++rank) {
    order_restored(used_, timed[rank]);
    seeds_[rank].clear();
    for (const auto& one : timed[rank]) seeds_[rank].push_back(one.task);
  }
}

double SimulatedIterations::growth_of(const std::vector<Timed<TaskId>>& own) {
  double growth = 0;
  for (const auto& one : own) {
    if (one.task >= last_bins_.size()) last_bins_.resize(one.task + 1);
    const Bin last = last_bins_[one.task];
    if (last.key() != 0) growth += one.bin.seconds() - last.seconds();
  }
  return growth;
}

Balancer SimulatedIterations::choose(const std::vector<std::vector<Timed<TaskId>>>& executed,
                                     const SimulatedRun& outcome) {
  const auto ranks = static_cast<double>(executed.size());
  double growth_s = 0;
  for (const auto& own : executed) growth_s = std::max(growth_s, growth_of(own));
  IterationTimes times{.average_task_s = outcome.in_tasks_s / ranks,
                       .process_s = outcome.end_s,
                       .restore_s = restore_s_,
                       .growth_s = measured_ ? growth_s : -1,
                       .ranks = static_cast<std::uint32_t>(executed.size())};
  for (const auto& own : executed) {
    const double load = load_of(own);
    times.average_load_s += load / ranks;
    times.longest_load_s = std::max(times.longest_load_s, load);
  }
  return chooser_.after(used_, times);
}

}  // namespace mh::tasks::sim
