// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/sim/balancing.hpp"

#include <algorithm>
#include <bit>

namespace mh::tasks::sim {
namespace {

using Item = Timed<TaskId>;
using Items = std::vector<Item>;

constexpr std::uint64_t kHeaderBytes = 32 + LoadCounts::kLevels * sizeof(std::uint32_t);
constexpr std::uint64_t kBinBytes = 2;

// The time when each host is free, and the costs of a message.
class Clocks {
 public:
  Clocks(const MachineModel& machine, std::size_t ranks) : machine_(machine), free_(ranks) {}

  // Host `from` sends `items` tasks when it is free. Returns the arrival time at `to`.
  std::uint64_t send(std::uint32_t from, std::uint32_t to, std::size_t items) {
    if (from == to) return free_[from];
    const std::uint64_t bytes = kHeaderBytes + items * (machine_.task_bytes + kBinBytes);
    free_[from] += machine_.overhead_ns + machine_.transfer_ns(bytes);
    const bool near = from / machine_.cores_per_node == to / machine_.cores_per_node;
    return free_[from] + (near ? machine_.local_latency_ns : machine_.latency_ns);
  }
  void receive(std::uint32_t host, std::uint64_t arrival, bool own) {
    free_[host] = std::max(free_[host], arrival) + (own ? 0 : machine_.overhead_ns);
  }
  void work(std::uint32_t host, std::uint64_t steps) { free_[host] += steps * machine_.step_ns; }
  void start(std::uint64_t time) { std::ranges::fill(free_, time); }
  [[nodiscard]] std::uint64_t last() const { return std::ranges::max(free_); }

 private:
  const MachineModel& machine_;
  std::vector<std::uint64_t> free_;
};

// The number of bins is fixed, so a sort takes one step for each task.
std::uint64_t sort_steps(std::size_t count) { return count; }

struct Leaves {
  std::vector<Items> kept;
  std::vector<Report<TaskId>> reports = {};
  double target = 0;
};

// The executed tasks of each rank, with their bins.
std::vector<Items> binned(std::span<const float> durations, const Seeds& executed) {
  std::vector<Items> items(executed.size());
  for (std::size_t rank = 0; rank < executed.size(); ++rank) {
    for (const TaskId task : executed[rank]) items[rank].push_back({task, Bin(durations[task])});
  }
  return items;
}

// The first step of every rank: the rank learns the target, which is the average load or the
// longest task, and gives away the load above.
Leaves donate_all(const MachineModel& machine, const Balance& rules, std::vector<Items> own,
                  Clocks& clocks) {
  Leaves leaves{.kept = std::move(own)};
  double sum = 0;
  Bin longest;
  for (const Items& items : leaves.kept) {
    for (const Item& item : items) {
      sum += item.bin.seconds();
      longest = std::max(longest, item.bin);
    }
  }
  leaves.target = std::max(sum / static_cast<double>(leaves.kept.size()), longest.seconds());
  clocks.start(clocks.last() + 2 * static_cast<std::uint64_t>(std::bit_width(leaves.kept.size())) *
                                   (2 * machine.overhead_ns + machine.latency_ns));
  for (std::uint32_t rank = 0; rank < leaves.kept.size(); ++rank) {
    const std::size_t had = leaves.kept[rank].size();
    leaves.reports.push_back(donate(leaves.kept[rank], rules.donate_above * leaves.target));
    if (!leaves.reports.back().given.empty()) clocks.work(rank, sort_steps(had));
  }
  return leaves;
}

void keep(std::vector<Items>& kept, std::uint32_t rank, const Items& more) {
  kept[rank].insert(kept[rank].end(), more.begin(), more.end());
}

void centrally(Leaves& leaves, Clocks& clocks) {
  const auto ranks = static_cast<std::uint32_t>(leaves.kept.size());
  std::size_t given = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t arrival = clocks.send(rank, 0, leaves.reports[rank].given.size());
    clocks.receive(0, arrival, rank == 0);
    given += leaves.reports[rank].given.size();
  }
  TreeNode<TaskId> root(std::move(leaves.reports), leaves.target);
  clocks.work(0, sort_steps(given));
  const auto parts = root.down(root.up(TreeNode<TaskId>::kNoLimit).given);
  clocks.work(0, root.steps());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    clocks.receive(rank, clocks.send(0, rank, parts[rank].size()), rank == 0);
    keep(leaves.kept, rank, parts[rank]);
  }
}

// Runs the tree by levels. The data flow allows that: on the way up a node waits only for its
// children, on the way down only for its parent.
class TreeRun {
 public:
  TreeRun(Leaves& leaves, const Balance& rules, Clocks& clocks)
      : leaves_(leaves),
        clocks_(clocks),
        tree_(static_cast<std::uint32_t>(leaves.kept.size()), rules.branching),
        limit_(rules.assign_below * leaves.target) {}

  void run() {
    std::vector<Report<TaskId>> below = std::move(leaves_.reports);
    for (std::uint32_t level = 1; level <= tree_.root_level(); ++level) below = up(level, below);
    std::vector<Items> above(1);
    above[0] = std::move(below[0].given);
    for (std::uint32_t level = tree_.root_level(); level > 0; --level) above = down(level, above);
    for (std::uint32_t rank = 0; rank < leaves_.kept.size(); ++rank) {
      keep(leaves_.kept, rank, above[rank]);
    }
  }

 private:
  std::vector<Report<TaskId>> up(std::uint32_t level, std::vector<Report<TaskId>>& below) {
    std::vector<Report<TaskId>> reports;
    auto& nodes = nodes_.emplace_back();
    for (std::uint32_t index = 0; index < tree_.nodes(level); ++index) {
      const std::uint32_t host = tree_.host(level, index);
      std::vector<Report<TaskId>> children;
      std::size_t given = 0;
      for (std::uint32_t i = 0; i < tree_.children(level, index); ++i) {
        const std::uint32_t child = tree_.first_child(index) + i;
        const std::uint32_t from = tree_.host(level - 1, child);
        given += below[child].given.size();
        const std::uint64_t arrival = clocks_.send(from, host, below[child].given.size());
        clocks_.receive(host, arrival, from == host);
        children.push_back(std::move(below[child]));
      }
      TreeNode<TaskId>& node = nodes.emplace_back(std::move(children), leaves_.target);
      reports.push_back(node.up(limit_));
      clocks_.work(host, sort_steps(given) + node.steps());
    }
    return reports;
  }

  std::vector<Items> down(std::uint32_t level, std::vector<Items>& above) {
    std::vector<Items> below(tree_.nodes(level - 1));
    for (std::uint32_t index = 0; index < tree_.nodes(level); ++index) {
      const std::uint32_t host = tree_.host(level, index);
      TreeNode<TaskId>& node = nodes_[level - 1][index];
      const std::uint64_t before = node.steps();
      clocks_.work(host, sort_steps(above[index].size()));
      auto parts = node.down(std::move(above[index]));
      clocks_.work(host, node.steps() - before);
      for (std::uint32_t i = 0; i < parts.size(); ++i) {
        const std::uint32_t child = tree_.first_child(index) + i;
        const std::uint32_t to = tree_.host(level - 1, child);
        clocks_.receive(to, clocks_.send(host, to, parts[i].size()), to == host);
        below[child] = std::move(parts[i]);
      }
    }
    return below;
  }

  Leaves& leaves_;
  Clocks& clocks_;
  BalanceTree tree_;
  double limit_;
  std::vector<std::vector<TreeNode<TaskId>>> nodes_;  // by level, from 1 on
};

}  // namespace

Balanced balance(Scheme scheme, const MachineModel& machine, const Balance& rules,
                 std::span<const float> durations, const Seeds& executed) {
  Clocks clocks(machine, executed.size());
  std::vector<Items> own = binned(durations, executed);
  Balanced balanced;
  for (int pass = 0; pass < rules.passes; ++pass) {
    Leaves leaves = donate_all(machine, rules, std::move(own), clocks);
    for (const auto& report : leaves.reports) balanced.moved += report.given.size();
    if (scheme == Scheme::central) {
      centrally(leaves, clocks);
    } else {
      TreeRun(leaves, rules, clocks).run();
    }
    own = std::move(leaves.kept);
  }
  balanced.seconds = static_cast<double>(clocks.last()) * 1e-9;
  double sum = 0;
  double longest = 0;
  for (const Items& items : own) {
    auto& seeds = balanced.seeds.emplace_back();
    double load = 0;
    for (const Item& item : items) {
      seeds.push_back(item.task);
      load += durations[item.task];
    }
    sum += load;
    longest = std::max(longest, load);
  }
  balanced.over_ideal = longest / (sum / static_cast<double>(executed.size())) - 1;
  return balanced;
}

}  // namespace mh::tasks::sim
