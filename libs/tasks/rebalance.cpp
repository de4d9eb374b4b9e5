// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/rebalance.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tasks/wire.hpp"

namespace mh::tasks {
namespace {

Status send(Network& network, std::uint32_t to, const Wire& wire) {
  const auto ticket = network.send(to, Tag::balance, wire, false);
  if (!ticket) return ticket.status();
  for (;;) {
    const auto done = network.done(*ticket);
    if (!done) return done.status();
    if (*done) return {};
    sched_yield();
  }
}

Result<Wire> receive(Network& network, std::uint32_t from) {
  for (;;) {
    const auto envelope = network.probe(from, Tag::balance);
    if (!envelope) return envelope.status();
    if (envelope->has_value()) {
      Wire wire((*envelope)->bytes);
      const Status taken = network.take(**envelope, wire);
      return taken ? Result<Wire>(std::move(wire)) : Result<Wire>(taken);
    }
    sched_yield();
  }
}

// A pass of the balancer on one rank.
class Pass {
 public:
  Pass(Network& network, const BalanceTree& tree, double limit, double target, Arena& arena)
      : network_(network),
        tree_(tree),
        rank_(network.rank()),
        limit_(limit),
        target_(target),
        arena_(arena) {}

  // Returns the tasks that this rank gets. `report` has the tasks that it gives away.
  Result<ArenaTasks> run(Report<std::uint32_t> report) {
    if (const Status status = up(report); !status) return status;
    return down(std::move(report.given));
  }

 private:
  [[nodiscard]] std::uint32_t host_above(std::uint32_t level) const {
    return tree_.host(level + 1, index_ / tree_.branching());
  }

  // On return `report` is the report that was sent to the parent or, on the root's host, the root's
  // rest.
  Status up(Report<std::uint32_t>& report) {
    for (std::uint32_t level = 0; level < tree_.root_level(); ++level) {
      parent_ = host_above(level);
      if (parent_ != rank_) {
        WireWriter writer;
        writer.put_report(arena_, report);
        return send(network_, parent_, writer.wire());
      }
      index_ /= tree_.branching();
      auto children = collect(level + 1, std::move(report));
      if (!children) return children.status();
      report = nodes_.emplace_back(std::move(*children), target_).up(limit_);
    }
    return {};
  }

  using Reports = std::vector<Report<std::uint32_t>>;
  Result<Reports> collect(std::uint32_t level, Report<std::uint32_t> own) {
    Reports children;
    children.push_back(std::move(own));  // a node runs on the host of its first child
    for (std::uint32_t i = 1; i < tree_.children(level, index_); ++i) {
      const std::uint32_t from = tree_.host(level - 1, tree_.first_child(index_) + i);
      const auto wire = receive(network_, from);
      if (!wire) return wire.status();
      children.push_back(WireReader(*wire).get_report(arena_));
    }
    return children;
  }

  Result<ArenaTasks> down(ArenaTasks above) {
    if (nodes_.size() < tree_.root_level()) {
      const auto wire = receive(network_, parent_);
      if (!wire) return wire.status();
      above = WireReader(*wire).get_list(arena_);
    }
    for (auto level = static_cast<std::uint32_t>(nodes_.size()); level > 0; --level) {
      auto parts = nodes_[level - 1].down(std::move(above));
      for (std::uint32_t i = 1; i < parts.size(); ++i) {
        WireWriter writer;
        writer.put_list(arena_, parts[i]);
        const std::uint32_t to = tree_.host(level - 1, tree_.first_child(index_) + i);
        if (const Status status = send(network_, to, writer.wire()); !status) return status;
      }
      above = std::move(parts[0]);
      index_ *= tree_.branching();
    }
    return above;
  }

  Network& network_;
  const BalanceTree& tree_;
  std::uint32_t rank_;
  double limit_;
  double target_;
  Arena& arena_;
  std::uint32_t parent_ = 0;
  std::uint32_t index_ = network_.rank();            // of this rank's node at the current level
  std::vector<TreeNode<std::uint32_t>> nodes_ = {};  // by level, from 1 on
};

// The target in seconds: the average load or the longest task, whichever is more. The longest load
// cannot be less.
Result<double> target_of(Network& network, const ArenaTasks& own) {
  std::array<double, 1> load{};
  std::array<double, 1> longest{};
  for (const auto& timed : own) {
    load[0] += timed.bin.seconds();
    longest[0] = std::max(longest[0], timed.bin.seconds());
  }
  if (const Status status = network.sum(load); !status) return status;
  if (const Status status = network.maximum(longest); !status) return status;
  return std::max(load[0] / network.ranks(), longest[0]);
}

}  // namespace

Result<std::uint64_t> rebalance(Network& network, Scheme scheme, const Balance& rules, Arena& arena,
                                ArenaTasks& own) {
  const std::uint32_t ranks = network.ranks();
  const bool central = scheme == Scheme::central;
  const BalanceTree tree(ranks, central ? std::max(ranks, 2U) : rules.branching);
  std::uint64_t given = 0;
  for (int pass = 0; pass < rules.passes; ++pass) {
    const auto target = target_of(network, own);
    if (!target) return target.status();
    if (*target <= 0) break;  // there are no tasks
    Report<std::uint32_t> report = donate(own, rules.donate_above * *target);
    given += report.given.size();
    const double limit = central ? TreeNode<std::uint32_t>::kNoLimit : rules.assign_below * *target;
    const auto got = Pass(network, tree, limit, *target, arena).run(std::move(report));
    if (!got) return got.status();
    own.insert(own.end(), got->begin(), got->end());
  }
  return given;
}

}  // namespace mh::tasks
