// SPDX-License-Identifier: BSD-3-Clause
// Persistence-based balancing: the tasks that each rank ran in one iteration, and their durations,
// decide which rank runs which tasks in the next (section 5, algorithms 1 and 2, of the paper that
// tasks/config.hpp names).
//
//   donate()   a rank above C times the average gives away its shortest tasks, down to that limit
//   assign     the longest task goes to the child that has the emptiest rank, then the next task
//
//   central    all ranks donate to one rank, which assigns
//   tree       every rank is a leaf of an n-ary tree. On the way up a node assigns the donated
//              tasks that fit below D times the average, and passes the rest on. The root assigns
//              the rest. On the way down each node assigns the tasks that it gets.
//
// A difference from the paper: the paper's node knows the average load of a child's subtree, and
// assigns tasks of any length on the way up while that average is below the limit. So the longest
// task of all may go to a rank that lacks little, or to a subtree whose ranks each lack a little.
// In this file a report has a histogram, of constant size, of the loads of the ranks below it. On
// the way up a node assigns a task only where a rank has room for it.
//
// Only ranks with too much load donate. A task that would give any rank too much load goes to a
// rank that has tasks of its own; a second pass moves that rank's own tasks on (Balance::passes).
//
// Durations are stored as 16-bit bins, about 0.4 % wide: two bytes for each task beside the task
// itself. Threads: the caller's. This file sends no messages: its user carries Reports up and tasks
// down.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace mh::tasks {

// A task's duration, cut to its leading digits (8 bits of the mantissa), in 16 bits. Bins keep the
// order of durations.
class Bin {
 public:
  static constexpr unsigned kShift = 23 - 8;  // 8 bits of the mantissa stay

  Bin() = default;
  // Makes the bin of a duration. `seconds`: 0 or more, and finite as a float. Durations below 2^-96
  // count as 2^-96.
  explicit Bin(double seconds) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(seconds)) >> kShift;
    key_ = static_cast<std::uint16_t>(std::clamp(bits, kLeast, kLeast + 0xFFFF) - kLeast);
  }
  // Returns the middle of the bin in seconds, as an estimate of the duration.
  [[nodiscard]] double seconds() const {
    const std::uint32_t bits = ((key_ + kLeast) << kShift) | (1U << (kShift - 1));
    return std::bit_cast<float>(bits);
  }
  // Returns the bin as a number, for storage in a task's header; 0 is the shortest.
  [[nodiscard]] std::uint16_t key() const { return key_; }
  static Bin of_key(std::uint16_t key) {
    Bin bin;
    bin.key_ = key;
    return bin;
  }
  bool operator<(const Bin& other) const { return key_ < other.key_; }

 private:
  static constexpr std::uint32_t kLeast = (127 - 96) << 8U;
  std::uint16_t key_ = 0;  // messages carry the object as bytes
};

template <class Task>
struct Timed {
  Task task;
  Bin bin;
};

// A histogram of the loads (seconds of tasks) of the ranks below a node of the tree. A level is a
// 128th of the average load.
class LoadCounts {
 public:
  static constexpr std::size_t kLevels = 256;
  static constexpr double kLevelsOfAverage = 128;  // the last level: twice the average, or more

  void add(double load, double average) {
    const double at = std::min(load / average * kLevelsOfAverage, kLevels - 1.0);
    add_at(static_cast<std::size_t>(at), 1);
  }
  void add(const LoadCounts& other) { add_levels(other.counts_); }
  // The histogram in the form that messages carry: the number of ranks by level; empty or kLevels
  // long.
  [[nodiscard]] std::span<const std::uint32_t> levels() const { return counts_; }
  void add_levels(std::span<const std::uint32_t> levels) {
    for (std::size_t i = 0; i < levels.size(); ++i) {
      if (levels[i] != 0) add_at(i, levels[i]);
    }
  }
  // Returns the load of the emptiest rank in seconds. The histogram must count at least one rank.
  // `average`: the average load in seconds.
  [[nodiscard]] double least(double average) const {
    return (static_cast<double>(first_) + 0.5) / kLevelsOfAverage * average;
  }
  // Adds a task of `seconds` to the load of the emptiest rank. The remainder below a whole level is
  // kept for the next call.
  void raise_least(double seconds, double average) {
    rest_ += seconds / average * kLevelsOfAverage;
    const double levels = std::floor(rest_);
    rest_ -= levels;
    --counts_[first_];
    const double to = std::min(static_cast<double>(first_) + levels, kLevels - 1.0);
    add_at(static_cast<std::size_t>(to), 1);
    while (counts_[first_] == 0) ++first_;
  }

 private:
  void add_at(std::size_t level, std::uint32_t ranks) {
    counts_.resize(kLevels);
    counts_[level] += ranks;
    first_ = std::min(first_, level);
  }

  std::vector<std::uint32_t> counts_;  // empty: no ranks
  std::size_t first_ = kLevels - 1;    // the first level that has a rank
  double rest_ = 0;                    // levels, in [0, 1)
};

// The report of a subtree (a node of the tree and the ranks below it) to its parent, with the tasks
// that the subtree gives away.
template <class Task>
struct Report {
  double load = 0;  // seconds, of the tasks that the subtree keeps
  std::uint32_t ranks = 0;
  std::vector<Timed<Task>> given;
  LoadCounts loads;  // of its ranks; empty for a single rank
};

enum class Scheme : std::uint8_t { central, tree };

struct Balance {
  double donate_above = 1.003;  // C, times the average
  double central_above = 1;     // the same for the central balancer, which knows every rank
  double assign_below = 1.003;  // D, times the average
  bool cap_at_longest = true;   // limits refer to the longest task if it exceeds the average load
  std::uint32_t branching = 3;  // children of a node of the tree
  int passes = 4;               // at most
};

namespace detail {
inline constexpr auto kLonger = [](const auto& a, const auto& b) { return b.bin < a.bin; };
}  // namespace detail

// Takes the shortest tasks out of `own`, a rank's tasks, until those left take at most `limit`
// seconds. Returns the rank's report, which has the tasks taken out.
template <class Task>
Report<Task> donate(std::vector<Timed<Task>>& own, double limit) {
  Report<Task> report;
  report.ranks = 1;
  for (const auto& timed : own) report.load += timed.bin.seconds();
  if (report.load <= limit) return report;
  std::ranges::stable_sort(own, detail::kLonger);
  while (report.load > limit && !own.empty()) {
    report.load -= own.back().bin.seconds();
    report.given.push_back(own.back());
    own.pop_back();
  }
  return report;
}

// A node of the tree, or the one rank that balances for all ranks in the central balancer.
template <class Task>
class TreeNode {
 public:
  // A tree node with the reports of all its children, whose index in `children` names the child.
  // `average`: the average load of all ranks, in seconds.
  TreeNode(std::vector<Report<Task>> children, double average)
      : children_(std::move(children)), given_(children_.size()), average_(average) {
    for (auto& child : children_) {
      pool_.insert(pool_.end(), child.given.begin(), child.given.end());
      child.given = {};
    }
    std::ranges::stable_sort(pool_, detail::kLonger);
  }

  // On the way up the tree: assigns the tasks that fit a rank below `limit` seconds of load, and
  // passes the rest on in the report for the parent, which the call returns.
  Report<Task> up(double limit) {
    assign(limit);
    Report<Task> report;
    for (const auto& child : children_) {
      report.load += child.load;
      report.ranks += child.ranks;
      if (child.ranks == 1) {
        report.loads.add(child.load, average_);
      } else {
        report.loads.add(child.loads);
      }
    }
    report.given = std::exchange(pool_, {});
    return report;
  }

  // On the way down the tree: assigns all tasks that the parent has sent. Returns the tasks of each
  // child, with those that up() assigned.
  std::vector<std::vector<Timed<Task>>> down(std::vector<Timed<Task>> from_above) {
    pool_ = std::move(from_above);
    std::ranges::stable_sort(pool_, detail::kLonger);
    assign(kNoLimit);
    return std::exchange(given_, {});
  }

  // The number of steps in priority queues that assign() has taken so far, for the simulator's
  // model of the time.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

 private:
  struct ChildByLoad {
    double least;
    std::size_t child;
    // The order of a priority queue whose greatest entry is the child with the emptiest rank; of
    // equal children, the first.
    bool operator<(const ChildByLoad& other) const {
      return least != other.least ? least > other.least : child > other.child;
    }
  };

  [[nodiscard]] double least(std::size_t child) const {
    const auto& report = children_[child];
    return report.ranks == 1 ? report.load : report.loads.least(average_);
  }
  void give(std::size_t child, const Timed<Task>& timed) {
    auto& report = children_[child];
    if (report.ranks != 1) report.loads.raise_least(timed.bin.seconds(), average_);
    report.load += timed.bin.seconds();
    given_[child].push_back(timed);
  }

  // Gives each task of pool_, which is sorted with the longest first, to the child with the
  // emptiest rank. Tasks that would raise that rank's load above `limit` seconds stay in pool_.
  void assign(double limit) {
    std::vector<ChildByLoad> heap;
    for (std::size_t i = 0; i < children_.size(); ++i) heap.push_back({least(i), i});
    std::make_heap(heap.begin(), heap.end());
    std::vector<Timed<Task>> rest;
    for (const Timed<Task>& timed : pool_) {
      if (heap.front().least + timed.bin.seconds() > limit) {
        rest.push_back(timed);
        continue;
      }
      give(heap.front().child, timed);
      std::pop_heap(heap.begin(), heap.end());
      heap.back().least = least(heap.back().child);
      std::push_heap(heap.begin(), heap.end());
      steps_ += static_cast<std::uint64_t>(std::bit_width(heap.size()));
    }
    pool_ = std::move(rest);
  }

  std::vector<Report<Task>> children_;  // a child's load grows with the tasks that the child gets
  std::vector<Timed<Task>> pool_;
  std::vector<std::vector<Timed<Task>>> given_;
  double average_;
  std::uint64_t steps_ = 0;
};

// The tree of ranks along which tasks are balanced, over the ranks 0 ... ranks - 1. Node `index` of
// level `level` stands for the ranks from index * branching^level on, and runs on the first of
// them. Level 0 is the ranks themselves.
class BalanceTree {
 public:
  BalanceTree(std::uint32_t ranks, std::uint32_t branching) : branching_(branching) {
    for (std::uint32_t nodes = ranks;; nodes = (nodes + branching - 1) / branching) {
      nodes_.push_back(nodes);
      if (nodes == 1) break;
    }
    for (std::uint64_t span = 1; spans_.size() < nodes_.size(); span *= branching) {
      spans_.push_back(span);
    }
  }
  [[nodiscard]] std::uint32_t branching() const { return branching_; }
  [[nodiscard]] std::uint32_t root_level() const {
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  [[nodiscard]] std::uint32_t nodes(std::uint32_t level) const { return nodes_[level]; }
  [[nodiscard]] std::uint32_t host(std::uint32_t level, std::uint32_t index) const {
    return static_cast<std::uint32_t>(spans_[level] * index);
  }
  [[nodiscard]] std::uint32_t first_child(std::uint32_t index) const { return index * branching_; }
  // Returns the number of children of a node of the tree. `level`: above 0.
  [[nodiscard]] std::uint32_t children(std::uint32_t level, std::uint32_t index) const {
    const std::uint32_t left = nodes_[level - 1] - first_child(index);
    return std::min(branching_, left);
  }

 private:
  std::uint32_t branching_;
  std::vector<std::uint32_t> nodes_;
  std::vector<std::uint64_t> spans_;
};

}  // namespace mh::tasks
