// SPDX-License-Identifier: BSD-3-Clause
// A task collection between two iterations (calls of process()): finds the tasks with which each
// rank begins the next one.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/clock.hpp"
#include "tasks/core.hpp"
#include "tasks/retention.hpp"

namespace mh::tasks::detail {
Status CollectionCore::restore() {
  if (state_ != State::processed) return {Code::misuse};
  if (!failure_.ok()) return failure_;
  // With Config::survive_loss all restored tasks must fit the deque. The ranks that survive a loss
  // find tasks only in the shared memory of deques, and a backlog (tasks that found no room in the
  // deque) is in the memory of one process.
  if (survivor_ != nullptr && executed_.size() > deque_.slots().capacity()) return {Code::full};
  const std::uint64_t start = ticks();
  if (config_.balancer == Balancer::automatic) {
    if (failure_ = choose(); !failure_) return failure_;
  }
  measured_ = true;
  if (moves_tasks(used_)) {
    if (failure_ = balance(scheme_of(used_)); !failure_) return failure_;
  }
  order_restored(used_, executed_);
  add_executed();
  state_ = State::seeding;
  statistics_.restore_s = last_restore_s_ = seconds(ticks() - start);
  return {};
}

// Chooses the balancer of the next iteration from the times of all ranks (chooser.hpp). The choice
// is the same on all ranks.
Status CollectionCore::choose() {
  const double load = load_of(executed_);
  std::array<double, 2> sums{load, statistics_.task_s};
  std::array<double, 4> longest{load, statistics_.process_s, last_restore_s_, growth_s_};
  if (const Status status = network_->sum(sums); !status) return status;
  if (const Status status = network_->maximum(longest); !status) return status;
  used_ = chooser_.after(used_, {.average_task_s = sums[1] / network_->ranks(),
                                 .process_s = longest[1],
                                 .restore_s = longest[2],
                                 .average_load_s = sums[0] / network_->ranks(),
                                 .longest_load_s = longest[0],
                                 .growth_s = has_bins_ ? std::max(longest[3], 0.0) : -1,
                                 .ranks = network_->ranks()});
  return {};
}

Status CollectionCore::balance(Scheme scheme) {
  const auto given = rebalance(*network_, scheme, balance_rules_, arena_, executed_);
  if (!given) return given.status();
  statistics_.moved = *given;
  return {};
}

void CollectionCore::add_executed() {
  has_bins_ = used_ != Balancer::steal;
  for (const auto& timed : executed_) {
    const TaskBytes task = arena_.at(timed.task);
    TaskHeader header;
    std::memcpy(&header, task.bytes, sizeof(header));
    header.bin = timed.bin.key();
    std::memcpy(task.bytes, &header, sizeof(header));
    if (backlog_.count() != 0 || !deque_.add(task)) {
      backlog_.add(task.bytes);
    } else if (survivor_ != nullptr) {
      survivor_->added();
    }
  }
}

}  // namespace mh::tasks::detail
