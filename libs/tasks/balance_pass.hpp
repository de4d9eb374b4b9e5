// SPDX-License-Identifier: BSD-3-Clause
// The passes of a balancer, without a transport: in a pass the ranks report their loads, and tasks
// move from ranks with too much load to others. BalancePlan decides whether another pass follows,
// and BalancePass is the state machine of a rank in a pass. The library drives it with messages
// (rebalance.cpp), the simulator with events (sim/balancing.cpp).
//
//   begin()      takes the report of the rank; a leaf sends it to its parent
//   expects()    names the message that the rank needs next: the reports of the children in their
//                order on the way up, then the list of the parent on the way down
//   ended()      the rank has its tasks: got()
//
// The central balancer is a tree whose root is the parent of all ranks, without a limit on the way
// up. In each pass a rank sends one message to its parent and receives one from its parent.
//
// Threads: the caller's. Failures are those of the transport.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "manyhands/result.hpp"
#include "tasks/balance.hpp"

namespace mh::tasks {

// The loads (sums of task durations) of all ranks before a pass, in seconds.
struct Loads {
  double average = 0;
  double longest_task = 0;
  double longest = 0;  // the load of the fullest rank
};

// Decides whether another pass of balancing follows, and with which limits. All ranks pass the same
// loads, so all decide alike.
class BalancePlan {
 public:
  BalancePlan(Scheme scheme, const Balance& rules) : central_(scheme == Scheme::central) {
    above_ = central_ ? rules.central_above : rules.donate_above;
    below_ = rules.assign_below;
    passes_ = rules.passes;
    cap_ = rules.cap_at_longest;
  }

  // Call before each pass and after the last pass. True: another pass follows.
  bool next(const Loads& loads) {
    is_best_ = loads.longest < best_;
    best_ = std::min(best_, loads.longest);
    target_ = cap_ ? std::max(loads.average, loads.longest_task) : loads.average;
    if (target_ <= 0 || loads.longest <= above_ * target_) return false;
    return pass_++ < passes_;
  }
  // True: the distribution of the tasks over the ranks at the last next() is better than all
  // earlier distributions. The rank then keeps a copy of its list of tasks.
  [[nodiscard]] bool is_best() const { return is_best_; }

  // The limits of a rank's load in this pass, in seconds: the ideal load, the load above which a
  // rank gives tasks away, and the load up to which a rank gets tasks.
  [[nodiscard]] double target() const { return target_; }
  [[nodiscard]] double donates_above() const {
    return above_ * target_ * (1 - kDeeper * (pass_ - 1));
  }
  [[nodiscard]] double assigns_below() const {
    return central_ ? std::numeric_limits<double>::infinity() : below_ * target_;
  }

 private:
  // In each further pass, the load above which a rank gives tasks away is lower by this part of its
  // value in the first pass. All ranks thus give more short tasks, which fit beside long tasks.
  static constexpr double kDeeper = 0.1;

  bool central_;
  bool cap_ = true;
  bool is_best_ = true;
  int pass_ = 0;  // passes that have begun
  int passes_ = 0;
  double above_ = 1;
  double below_ = 1;
  double target_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
};

// The state machine of one rank in one pass. `Task`: a number. The transport `wire` has
// send_report(to, report) and send_list(to, list), which return a Status.
class BalancePass {
 public:
  using Task = std::uint32_t;
  using List = std::vector<Timed<Task>>;
  struct Expected {
    std::uint32_t from;
    bool report;  // otherwise a list
  };

  // `tree` must outlive the pass; only the constructor uses `plan`.
  BalancePass(const BalanceTree& tree, std::uint32_t rank, const BalancePlan& plan)
      : tree_(&tree),
        rank_(rank),
        index_(rank),
        limit_(plan.assigns_below()),
        target_(plan.target()) {}

  template <class Wire>
  Status begin(Report<Task> own, Wire&& wire) {
    report_ = std::move(own);
    return go_up(wire);
  }
  template <class Wire>
  Status take_report(Report<Task> report, Wire&& wire) {
    children_.push_back(std::move(report));
    return complete_node() ? go_up(wire) : Status{};
  }
  template <class Wire>
  Status take_list(List list, Wire&& wire) {
    return go_down(std::move(list), wire);
  }

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] List& got() { return got_; }
  // Returns the message that this rank needs next. Valid until ended() is true.
  [[nodiscard]] Expected expects() const {
    if (sent_up_) return {parent(), false};
    const std::uint32_t child =
        tree_->first_child(index_) + static_cast<std::uint32_t>(children_.size());
    return {tree_->host(level(), child), true};
  }
  // The number of steps in priority queues and sorts so far, for the simulator's model of the time.
  [[nodiscard]] std::uint64_t steps() const {
    std::uint64_t steps = sorted_;
    for (const auto& node : nodes_) steps += node.steps();
    return steps;
  }

 private:
  // The highest level of the tree whose node runs on this rank and has the reports of all its
  // children; 0: none.
  [[nodiscard]] std::uint32_t level() const { return static_cast<std::uint32_t>(nodes_.size()); }
  [[nodiscard]] std::uint32_t parent() const {
    return tree_->host(level() + 1, index_ / tree_->branching());
  }
  // Completes the nodes of the tree that run on this rank, from the lowest level up. Stops where a
  // child's report is missing. If the parent is on another rank, sends it this rank's report.
  template <class Wire>
  Status go_up(Wire& wire) {
    while (level() < tree_->root_level()) {
      if (parent() != rank_) {
        sent_up_ = true;
        return wire.send_report(parent(), report_);
      }
      index_ /= tree_->branching();
      children_.clear();
      children_.push_back(std::move(report_));  // a node runs on the host of its first child
      if (!complete_node()) return {};
    }
    return go_down(std::move(report_.given), wire);
  }
  // True: all children of the current node of the tree have reported, and report_ is now the node's
  // own report.
  bool complete_node() {
    if (children_.size() < tree_->children(level() + 1, index_)) return false;
    for (const auto& child : children_) sorted_ += child.given.size();
    report_ = nodes_.emplace_back(std::move(children_), target_).up(limit_);
    children_ = {};
    return true;
  }
  template <class Wire>
  Status go_down(List above, Wire& wire) {
    for (std::uint32_t at = level(); at > 0; --at) {
      sorted_ += above.size();
      auto parts = nodes_[at - 1].down(std::move(above));
      for (std::uint32_t i = 1; i < parts.size(); ++i) {
        const std::uint32_t to = tree_->host(at - 1, tree_->first_child(index_) + i);
        if (const Status status = wire.send_list(to, parts[i]); !status) return status;
      }
      above = std::move(parts[0]);
      index_ *= tree_->branching();
    }
    got_ = std::move(above);
    ended_ = true;
    return {};
  }

  const BalanceTree* tree_;
  std::uint32_t rank_;
  std::uint32_t index_;  // of this rank's node at the current level
  double limit_;
  double target_;
  bool sent_up_ = false;
  bool ended_ = false;
  std::uint64_t sorted_ = 0;
  Report<Task> report_;
  std::vector<Report<Task>> children_;
  std::vector<TreeNode<Task>> nodes_;  // by level, from 1 on
  List got_;
};

inline BalanceTree tree_of(Scheme scheme, const Balance& rules, std::uint32_t ranks) {
  return BalanceTree(ranks, scheme == Scheme::central ? std::max(ranks, 2U) : rules.branching);
}

}  // namespace mh::tasks
