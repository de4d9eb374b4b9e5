// SPDX-License-Identifier: BSD-3-Clause
// A task collection between two iterations: the tasks with which each rank begins the next one.
#include <algorithm>
#include <array>

#include "base/clock.hpp"
#include "tasks/core.hpp"

namespace mh::tasks::detail {
namespace {

double load_of(const ArenaTasks& tasks) {
  double load = 0;
  for (const auto& timed : tasks) load += timed.bin.seconds();
  return load;
}

}  // namespace

Status CollectionCore::restore() {
  if (state_ != State::processed) return {Code::misuse};
  if (!failure_.ok()) return failure_;
  const std::uint64_t start = ticks();
  if (config_.balancer == Balancer::automatic) {
    if (failure_ = choose(); !failure_) return failure_;
  }
  measured_ = true;
  if (used_ == Balancer::plb_central || used_ == Balancer::plb_tree) {
    failure_ = balance(used_ == Balancer::plb_central ? Scheme::central : Scheme::tree);
    if (!failure_) return failure_;
  }
  // The deque returns the newest task first.
  if (used_ == Balancer::none) {
    std::ranges::reverse(executed_);
  } else if (used_ != Balancer::steal) {
    std::ranges::stable_sort(executed_, {}, [](const auto& timed) { return timed.bin.seconds(); });
  }
  add_executed();
  state_ = State::seeding;
  statistics_.restore_s = last_restore_s_ = seconds(ticks() - start);
  return {};
}

// Chooses the balancer of the next iteration, the same on all ranks.
Status CollectionCore::choose() {
  const double load = load_of(executed_);
  std::array<double, 2> sums{load, statistics_.task_s};
  std::array<double, 3> longest{load, statistics_.process_s, last_restore_s_};
  if (const Status status = network_->sum(sums); !status) return status;
  if (const Status status = network_->maximum(longest); !status) return status;
  const double average_load = sums[0] / network_->ranks();
  const double average_task_s = sums[1] / network_->ranks();
  chooser_.measured(used_, longest[1] - average_task_s + longest[2]);
  used_ = chooser_.next(longest[0] - average_load, average_load);
  return {};
}

Status CollectionCore::balance(Scheme scheme) {
  const auto given = rebalance(*network_, scheme, balance_rules_, arena_, executed_);
  if (!given) return given.status();
  statistics_.moved = *given;
  return {};
}

void CollectionCore::add_executed() {
  for (const auto& timed : executed_) {
    const TaskBytes task = arena_.at(timed.task);
    if (backlog_.count() != 0 || !deque_.add(task)) backlog_.add(task.bytes);
  }
}

}  // namespace mh::tasks::detail
