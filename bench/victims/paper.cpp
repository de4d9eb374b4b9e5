// SPDX-License-Identifier: BSD-3-Clause
#include "victims/paper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

namespace mh::victims {
namespace {

constexpr std::uint32_t kNumaNodes = 2;
constexpr std::uint32_t kCores = 48;       // of a node
constexpr std::size_t kIterations = 1000;  // for each core
constexpr double kMeanNs = 2e3;            // mean time of an iteration
constexpr int kMost = 500;                 // the largest imbalance of the figures, percent
constexpr std::uint32_t kTeams[] = {1, 2, 4, 6, 8, 12, 24, 48};  // threads of a rank
constexpr std::uint32_t kNodes[] = {1, 2, 4, 8};

// A job: `nodes` nodes of `ranks` ranks with `threads` threads each.
struct Shape {
  std::uint32_t nodes;
  std::uint32_t ranks;
  std::uint32_t threads;

  [[nodiscard]] std::uint32_t all() const { return nodes * ranks; }
};

// The relative cost of an iteration of `rank`; `place` is the iteration's position in the loops of
// all ranks, one after the other, from 0 to 1.
using Weight = std::function<double(std::uint32_t rank, double place)>;

// The cost grows linearly from iteration to iteration. It does not begin at 0, because a rank
// chooses the size of its first chunk by the time of its first iteration.
Weight triangle() {
  return [](std::uint32_t /*rank*/, double place) { return place + 0.01; };
}

// The first vertices have most of the work, as in a graph whose vertices are numbered by falling
// degree.
Weight skewed(const Shape& shape) {
  const double all = static_cast<double>(kIterations) * shape.all() * shape.threads;
  return [all](std::uint32_t /*rank*/, double place) { return 1 / (1 + place * all / 100); };
}

// The last rank has `percent` more work than the mean of the ranks, at most the work of all ranks.
Weight imbalance(const Shape& shape, double percent) {
  const double ranks = shape.all();
  const double last = std::min(1 + percent / 100, ranks);
  const double other = (ranks - last) / (ranks - 1);
  return [=](std::uint32_t rank, double /*place*/) { return rank + 1 == ranks ? last : other; };
}

PaperLoop loop_of(std::string name, const Shape& shape, const Weight& weight) {
  const std::size_t each = kIterations * shape.threads;
  PaperLoop loop{.name = std::move(name),
                 .nodes = std::vector<Costs>(shape.nodes, Costs(shape.ranks)),
                 .threads = shape.threads,
                 .ideal = kMeanNs * static_cast<double>(kIterations)};
  double sum = 0;
  for (std::uint32_t rank = 0; rank < shape.all(); ++rank) {
    auto& costs = loop.nodes[rank / shape.ranks][rank % shape.ranks];
    for (std::size_t i = 0; i < each; ++i) {
      const auto at = static_cast<double>(rank * each + i);
      costs.push_back(weight(rank, at / static_cast<double>(each * shape.all())));
      sum += costs.back();
    }
  }
  const double scale = kMeanNs * static_cast<double>(each) * shape.all() / sum;
  for (Costs& node : loop.nodes) {
    for (auto& costs : node) {
      for (double& cost : costs) cost *= scale;
    }
  }
  return loop;
}

std::string of_team(std::string_view name, const Shape& shape) {
  return fmt::format("{}, {} x {}", name, shape.ranks, shape.threads);
}

std::string on_nodes(std::string_view name, const Shape& shape) {
  return fmt::format("{}, {} nodes", of_team(name, shape), shape.nodes);
}

void add_imbalances(std::vector<PaperLoop>& loops, const Shape& shape) {
  for (int percent = 0; percent <= kMost; percent += 100) {
    const std::string name = fmt::format("+{}%", percent);
    loops.push_back(loop_of(of_team(name, shape), shape, imbalance(shape, percent)));
  }
}

void add_teams(std::vector<PaperLoop>& loops) {
  for (const std::uint32_t threads : kTeams) {
    const Shape shape{.nodes = 1, .ranks = kCores / threads, .threads = threads};
    loops.push_back(loop_of(of_team("triangle", shape), shape, triangle()));
    loops.push_back(loop_of(of_team("skewed", shape), shape, skewed(shape)));
    if (shape.ranks < 4) continue;  // as in figure 7, from 4 ranks on
    loops.push_back(loop_of(of_team("imbalance", shape), shape, imbalance(shape, kMost)));
  }
}

void add_nodes(std::vector<PaperLoop>& loops) {
  for (const std::uint32_t nodes : kNodes) {
    for (const std::uint32_t threads : {1U, 6U}) {
      const Shape shape{.nodes = nodes, .ranks = kCores / threads, .threads = threads};
      loops.push_back(loop_of(on_nodes("+500%", shape), shape, imbalance(shape, kMost)));
    }
  }
}

}  // namespace

std::uint32_t PaperLoop::ranks() const {
  return static_cast<std::uint32_t>(nodes.size() * nodes.front().size());
}

double PaperLoop::alone() const {
  double most = 0;
  for (const Costs& node : nodes) {
    for (const auto& costs : node) {
      most = std::max(most, std::accumulate(costs.begin(), costs.end(), 0.0) / threads);
    }
  }
  return most;
}

double PaperLoop::shared(VictimPolicy policy) const {
  double last = 0;
  for (const Costs& node : nodes) {
    last = std::max(last, SimulatedNode(node, kNumaNodes, policy, 0, threads).run());
  }
  return last;
}

std::vector<PaperLoop> paper_loops() {
  std::vector<PaperLoop> loops;
  const Shape one{.nodes = 1, .ranks = 16, .threads = 1};
  const Shape four{.nodes = 4, .ranks = 4, .threads = 1};
  loops.push_back(loop_of(of_team("triangle", one), one, triangle()));
  loops.push_back(loop_of(on_nodes("triangle", four), four, triangle()));
  add_imbalances(loops, {.nodes = 1, .ranks = 64, .threads = 1});
  add_imbalances(loops, {.nodes = 1, .ranks = kCores, .threads = 1});
  add_teams(loops);
  add_nodes(loops);
  return loops;
}

}  // namespace mh::victims
