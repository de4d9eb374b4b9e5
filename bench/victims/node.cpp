// SPDX-License-Identifier: BSD-3-Clause
#include "victims/node.hpp"

#include <algorithm>
#include <numeric>

#include "base/tuning.hpp"

namespace mh::victims {
namespace {

// The rules for the length of a unit, the work that a helper does before it gives a lent core back.
// All values are in nanoseconds.
constexpr lend::UnitLength::UnitRules kUnits{
    .least = static_cast<std::uint64_t>(tuning::kLeastUnitNs),
    .first = static_cast<std::uint64_t>(tuning::kFirstUnitNs),
    .most = static_cast<std::uint64_t>(tuning::kMostUnitNs),
    .look_cost = static_cast<std::uint64_t>(tuning::kUnitLookNs)};
constexpr double kShareOfRest = 8;    // a helper takes an eighth of the iterations that are left
constexpr std::size_t kReviews = 16;  // how often an owner renews its offer during its loop
constexpr double kHandOverNs = 2e3;   // lending a core and getting it back
constexpr double kMoveNs = 3.5e3;     // additional, if the helper was on another core
constexpr double kLookNs = 1e3;       // between two looks for work
constexpr double kFar = 1.3;          // factor on iterations whose memory is on another NUMA node

std::size_t iterations_in(double ns, double rate) {
  return std::max<std::size_t>(static_cast<std::size_t>(ns / std::max(rate, 1e-3)), 1);
}

}  // namespace

SimulatedNode::SimulatedNode(const Costs& costs, std::uint32_t numa_nodes, VictimPolicy policy,
                             std::uint64_t seed, std::uint32_t threads)
    : threads_(threads), unfinished_(static_cast<std::uint32_t>(costs.size())) {
  const auto ranks = static_cast<std::uint32_t>(costs.size());
  for (std::uint32_t i = 0; i < ranks; ++i) {
    ranks_.push_back({.costs = costs[i],
                      .numa = i * numa_nodes / ranks,
                      .end = costs[i].size(),
                      .rate = costs[i].empty() ? 0 : costs[i].front(),
                      .team = threads});
  }
  for (std::uint32_t i = 0; i < ranks * threads; ++i) {
    cores_.push_back({.home = i / threads,
                      .choice = lend::CoreVictimPicker(policy, seed * ranks * threads + i),
                      .unit = lend::UnitLength(kUnits)});
    at(0, i);
  }
}

double SimulatedNode::run() {
  while (!events_.empty() && unfinished_ != 0) {
    const Event next = events_.top();
    events_.pop();
    step(next.core, next.at);
  }
  return over_;
}

void SimulatedNode::step(std::uint32_t core, double now) {
  const Core& me = cores_[core];
  if (!ranks_[me.home].done) {
    work(core, now);
  } else if (me.victim == kNobody) {
    look_for_work(core, now);
  } else {
    help(core, now);
  }
}

// Takes `count` iterations from `first` on out of the owner's loop. Returns their cost in
// nanoseconds, and stores the mean cost of one in `owner.rate`.
double SimulatedNode::take(Rank& owner, std::size_t first, std::size_t count) {
  const auto begin = owner.costs.begin() + static_cast<std::ptrdiff_t>(first);
  const double cost = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), 0.0);
  owner.rate = cost / static_cast<double>(count);
  return cost;
}

// The next step of a core whose rank's loop is not done: its thread takes a chunk of the loop. If
// no iteration is left, the thread waits for the rank's other threads and for its helpers.
void SimulatedNode::work(std::uint32_t core, double now) {
  Rank& me = ranks_[cores_[core].home];
  const std::size_t left = me.end - me.front;
  if (left == 0) {
    me.offer_ends = 0;
    if (--me.team == 0 && me.helpers == 0) end_loop(cores_[core].home, now);
    return;
  }
  const std::size_t chunk = std::min(iterations_in(tuning::kLeastLoopChunkNs, me.rate), left);
  const double cost = take(me, me.front, chunk);
  if (me.front >= me.review_at) {
    me.offer_ends = now + me.rate * static_cast<double>(left) / threads_;
    me.review_at = me.front + me.costs.size() / kReviews;
  }
  me.front += chunk;
  at(now + cost, core);
}

// Called when no thread of the rank, and no helper, is in its loop any more: the rank waits from
// now on, and lends its cores.
void SimulatedNode::end_loop(std::uint32_t rank, double now) {
  ranks_[rank].done = true;
  --unfinished_;
  over_ = std::max(over_, now);
  for (std::uint32_t i = 0; i < threads_; ++i) at(now, rank * threads_ + i);
}

bool SimulatedNode::may_help(std::uint32_t rank, double now) const {
  return ranks_[rank].offer_ends >= now + tuning::kLeastLoanNs;
}

// Returns the rank whose offer of work the policy of the lender (the rank of `core`) values most,
// or kNobody if none offers enough work. Skips the ranks in `full`, all of whose helpers work.
std::uint32_t SimulatedNode::best_offer(std::uint32_t core, double now,
                                        const std::vector<std::uint32_t>& full) {
  Core& me = cores_[core];
  const std::uint32_t numa = ranks_[me.home].numa;
  std::uint32_t best = kNobody;
  std::uint64_t best_value = 0;
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    const Rank& other = ranks_[i];
    if (!may_help(i, now) || std::ranges::find(full, i) != full.end()) continue;
    const auto left = static_cast<std::uint64_t>(other.offer_ends - now);
    const std::uint64_t value =
        me.choice.value(left, other.numa == numa, [&] { return other.helpers; });
    if (value <= best_value) continue;
    best = i;
    best_value = value;
  }
  return best;
}

// Returns the rank to which `core` is lent: of the ranks with an idle helper that with the best
// offer, or kNobody. Sets `all_at_work` of ranks with better offers but no idle helper.
std::uint32_t SimulatedNode::choose(std::uint32_t core, double now) {
  std::vector<std::uint32_t> full;
  for (;;) {
    const std::uint32_t best = best_offer(core, now, full);
    if (best == kNobody || ranks_[best].helpers < ranks_[best].most_helpers) return best;
    ranks_[best].all_at_work = true;
    full.push_back(best);
  }
}

void SimulatedNode::look_for_work(std::uint32_t core, double now) {
  Core& me = cores_[core];
  const std::uint32_t victim = choose(core, now);
  if (victim == kNobody) {
    at(now + kLookNs, core);
    return;
  }
  const double begin = now + kHandOverNs + (victim == me.last_victim ? 0 : kMoveNs);
  ++ranks_[victim].helpers;
  me.victim = victim;
  me.last_victim = victim;
  me.lent_at = now;
  me.deadline = begin + static_cast<double>(me.unit.length());
  at(begin, core);
}

// The next step of a core that is lent: the victim's helper takes a chunk from the end of
// the victim's loop. It gives the core back if no iteration is left or its unit has ended.
void SimulatedNode::help(std::uint32_t core, double now) {
  Core& me = cores_[core];
  Rank& owner = ranks_[me.victim];
  const std::size_t left = owner.end - owner.front;
  if (left == 0 || now >= me.deadline) {
    give_back(core, now);
    return;
  }
  const std::size_t most = iterations_in(tuning::kMostLoopChunkNs, owner.rate);
  const std::size_t least = std::min(iterations_in(tuning::kLeastLoopChunkNs, owner.rate), most);
  const auto share = static_cast<std::size_t>(static_cast<double>(left) / kShareOfRest);
  const std::size_t chunk = std::min(std::clamp(share, least, most), left);
  owner.end -= chunk;
  const double far = owner.numa == ranks_[me.home].numa ? 1 : kFar;
  const double end = now + far * take(owner, owner.end, chunk);
  if (owner.offer_ends != 0) {
    owner.offer_ends =
        end + owner.rate * static_cast<double>(owner.end - owner.front) / (threads_ + 1);
  }
  at(end, core);
}

// Gives the owner more helper threads, because a lender has found none of them idle. An owner has
// at most n - 1 helpers on a node of n cores.
void SimulatedNode::grow(Rank& owner) const {
  const auto cores = static_cast<std::uint32_t>(cores_.size());
  owner.all_at_work = false;
  owner.most_helpers = std::min(owner.most_helpers + lend::kHelpersAtOnce, cores - 1);
}

void SimulatedNode::give_back(std::uint32_t core, double now) {
  Core& me = cores_[core];
  Rank& owner = ranks_[me.victim];
  const bool last = --owner.helpers == 0;
  me.unit.nothing_came(static_cast<std::uint64_t>(now - me.lent_at));
  if (owner.all_at_work) grow(owner);
  if (last && owner.team == 0 && !owner.done) end_loop(me.victim, now);
  me.victim = kNobody;
  at(now + kHandOverNs / 2, core);
}

}  // namespace mh::victims
