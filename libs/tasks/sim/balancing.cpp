// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/sim/balancing.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "tasks/balance_pass.hpp"
#include "tasks/retention.hpp"
#include "tasks/sim/queue.hpp"

namespace mh::tasks::sim {
namespace {

using Items = std::vector<Timed<TaskId>>;

constexpr std::uint64_t kHeaderBytes = 32;
constexpr std::uint64_t kBinBytes = 2;

// A message between simulated ranks in a pass of the balancer: a report, or a list of tasks in
// Report::given.
struct Letter {
  std::uint32_t from;
  bool report;
  Report<TaskId> content;
};

// A pass of the balancer on all simulated ranks. The ranks' clocks go on from pass to pass.
class PassRun {
 public:
  PassRun(const MachineModel& machine, std::vector<std::uint64_t>& clocks, const BalanceTree& tree,
          const BalancePlan& plan)
      : machine_(machine), clocks_(clocks), arrived_(clocks.size()), counted_(clocks.size()) {
    for (std::uint32_t rank = 0; rank < clocks.size(); ++rank) {
      ranks_.emplace_back(tree, rank, plan);
    }
  }

  // Runs the pass. `reports`: the report of each rank. Appends the tasks that each rank gets to its
  // list in `own`.
  void run(std::vector<Report<TaskId>> reports, std::vector<Items>& own) {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      acting_ = rank;
      static_cast<void>(ranks_[rank].begin(std::move(reports[rank]), *this));
    }
    while (!queue_.empty()) {
      const Event event = queue_.pop();
      clocks_[event.rank] = std::max(clocks_[event.rank], event.time);
      const Letter& letter = letters_[event.letter];
      arrived_[event.rank].emplace(Key{letter.from, letter.report}, event.letter);
      read(event.rank);
    }
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& got = ranks_[rank].got();
      own[rank].insert(own[rank].end(), got.begin(), got.end());
    }
  }

  // The functions that BalancePass needs of its transport.
  Status send_report(std::uint32_t to, const Report<TaskId>& report) {
    const std::uint64_t loads = report.loads.levels().size() * sizeof(std::uint32_t);
    return send(to, {acting_, true, report}, loads);
  }
  Status send_list(std::uint32_t to, const Items& list) {
    Report<TaskId> content;
    content.given = list;
    return send(to, {acting_, false, std::move(content)}, 0);
  }

 private:
  struct Event {
    std::uint64_t time;
    std::uint32_t rank;
    std::uint32_t letter;
  };
  using Key = std::pair<std::uint32_t, bool>;

  Status send(std::uint32_t to, Letter letter, std::uint64_t more_bytes) {
    count_steps(acting_);
    const std::uint64_t items = letter.content.given.size();
    const std::uint64_t bytes =
        kHeaderBytes + more_bytes + items * (machine_.task_bytes + kBinBytes);
    std::uint64_t& clock = clocks_[acting_];
    clock += machine_.overhead_ns + machine_.transfer_ns(bytes);
    const bool near = acting_ / machine_.cores_per_node == to / machine_.cores_per_node;
    const std::uint64_t latency = near ? machine_.local_latency_ns : machine_.latency_ns;
    letters_.push_back(std::move(letter));
    queue_.push({clock + latency, to, static_cast<std::uint32_t>(letters_.size() - 1)});
    return {};
  }
  // Takes the letters that have arrived and that the rank can use, in the order in which the rank
  // expects them.
  void read(std::uint32_t rank) {
    acting_ = rank;
    auto& waiting = arrived_[rank];
    while (!ranks_[rank].ended()) {
      const BalancePass::Expected expected = ranks_[rank].expects();
      const auto found = waiting.find({expected.from, expected.report});
      if (found == waiting.end()) break;
      Report<TaskId> content = std::move(letters_[found->second].content);
      waiting.erase(found);
      clocks_[rank] += machine_.overhead_ns;
      if (expected.report) {
        static_cast<void>(ranks_[rank].take_report(std::move(content), *this));
      } else {
        static_cast<void>(ranks_[rank].take_list(std::move(content.given), *this));
      }
    }
    count_steps(rank);
  }
  void count_steps(std::uint32_t rank) {
    const std::uint64_t steps = ranks_[rank].steps();
    clocks_[rank] += (steps - std::exchange(counted_[rank], steps)) * machine_.step_ns;
  }

  const MachineModel& machine_;
  std::vector<std::uint64_t>& clocks_;
  std::vector<BalancePass> ranks_;
  EventQueue<Event> queue_;
  std::vector<Letter> letters_;
  std::vector<std::map<Key, std::uint32_t>> arrived_;  // by rank
  std::vector<std::uint64_t> counted_;                 // steps, by rank
  std::uint32_t acting_ = 0;
};

Loads loads_of(const std::vector<Items>& own) {
  Loads loads;
  for (const Items& items : own) {
    const double load = load_of(items);
    loads.average += load / static_cast<double>(own.size());
    loads.longest = std::max(loads.longest, load);
    for (const auto& item : items) {
      loads.longest_task = std::max(loads.longest_task, item.bin.seconds());
    }
  }
  return loads;
}

// Models the two reductions before a pass, each up and down a binary tree. Afterwards the clocks of
// all ranks are equal.
void reduce(const MachineModel& machine, std::vector<std::uint64_t>& clocks) {
  const auto rounds = 4 * static_cast<std::uint64_t>(std::bit_width(clocks.size()));
  const std::uint64_t last =
      std::ranges::max(clocks) + rounds * (2 * machine.overhead_ns + machine.latency_ns);
  std::ranges::fill(clocks, last);
}

// Lets all ranks give away tasks above `limit` seconds of load; returns their reports. The number
// of bins is fixed, so a rank can sort by counting, and the model takes one step for each sorted
// task.
std::vector<Report<TaskId>> donate_all(const MachineModel& machine, double limit,
                                       std::vector<Items>& own,
                                       std::vector<std::uint64_t>& clocks) {
  std::vector<Report<TaskId>> reports;
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    const std::size_t had = own[rank].size();
    reports.push_back(donate(own[rank], limit));
    if (!reports.back().given.empty()) clocks[rank] += had * machine.step_ns;
  }
  return reports;
}

}  // namespace

Balanced balance(Scheme scheme, const MachineModel& machine, const Balance& rules,
                 std::vector<Items>& own) {
  const BalanceTree tree = tree_of(scheme, rules, static_cast<std::uint32_t>(own.size()));
  BalancePlan plan(scheme, rules);
  std::vector<std::uint64_t> clocks(own.size());
  std::vector<Items> best;
  Balanced balanced;
  for (;; ++balanced.passes) {
    reduce(machine, clocks);
    const Loads loads = loads_of(own);
    const bool again = plan.next(loads);
    if (plan.is_best()) {
      best = own;
      balanced.over_ideal = loads.average == 0 ? 0 : loads.longest / loads.average - 1;
    }
    if (!again) break;
    auto reports = donate_all(machine, plan.donates_above(), own, clocks);
    for (const auto& report : reports) balanced.moved += report.given.size();
    PassRun(machine, clocks, tree, plan).run(std::move(reports), own);
  }
  balanced.seconds = static_cast<double>(std::ranges::max(clocks)) * 1e-9;
  own = std::move(best);
  return balanced;
}

Balanced balance(Scheme scheme, const MachineModel& machine, const Balance& rules,
                 std::span<const float> durations, const Seeds& executed) {
  std::vector<Items> own(executed.size());
  for (std::size_t rank = 0; rank < executed.size(); ++rank) {
    for (const TaskId task : executed[rank]) {
      own[rank].push_back({task, Bin(static_cast<double>(durations[task]))});
    }
  }
  Balanced balanced = balance(scheme, machine, rules, own);
  double sum = 0;
  double longest = 0;
  for (const Items& items : own) {
    auto& seeds = balanced.seeds.emplace_back();
    double load = 0;
    for (const auto& item : items) {
      seeds.push_back(item.task);
      load += static_cast<double>(durations[item.task]);
    }
    sum += load;
    longest = std::max(longest, load);
  }
  balanced.over_ideal = longest / (sum / static_cast<double>(executed.size())) - 1;
  return balanced;
}

}  // namespace mh::tasks::sim
