// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/sim/workload.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace mh::tasks::sim {
namespace {

constexpr double kFall = 0.5;     // of a bound's logarithm, with the square of the distance
constexpr double kScatter = 0.6;  // standard deviation of that logarithm
constexpr std::uint32_t kReach = 12;
constexpr double kFull = 1.5;         // so far above the threshold no part of a block is screened
constexpr double kLeastShare = 0.02;  // of a task that is not null

// The logarithms of the Schwarz bounds of all pairs that can matter, in the order of their indices.
std::vector<float> draw_bounds(std::uint32_t blocks, std::mt19937_64& random) {
  std::normal_distribution<double> scatter(0, kScatter);
  std::vector<float> bounds;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const std::uint32_t last = std::min(blocks - 1, i + kReach);
    for (std::uint32_t j = i < kReach ? 0 : i - kReach; j <= last; ++j) {
      const double distance = i < j ? j - i : i - j;
      bounds.push_back(static_cast<float>(-kFall * distance * distance + scatter(random)));
    }
  }
  return bounds;
}

std::uint64_t count_above(const std::vector<float>& descending, double threshold) {
  std::uint64_t count = 0;
  std::size_t fit = descending.size();
  for (const float one : descending) {
    while (fit > 0 && one + descending[fit - 1] < threshold) --fit;
    count += fit;
  }
  return count;
}

// The threshold above which about `wanted` pairs of pairs lie.
double find_threshold(std::vector<float> bounds, std::uint64_t wanted) {
  std::ranges::sort(bounds, std::greater{});
  double low = 2.0 * bounds.back();
  double high = 2.0 * bounds.front();
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (count_above(bounds, middle) > wanted ? low : high) = middle;
  }
  return low;
}

// Turns shares of a block's full work into seconds. Each share gets a lognormal factor, whose width
// gives the wanted ratio of the longest to the mean. All are then scaled to the wanted sum.
void to_seconds(std::vector<float>& shares, const Problem& problem, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> scatter(shares.size());
  for (float& one : scatter) one = normal(random);
  float low = 0;
  float high = 2;
  for (int i = 0; i < 12; ++i) {
    const float width = (low + high) / 2;
    double sum = 0;
    float longest = 0;
    for (std::size_t task = 0; task < shares.size(); ++task) {
      const float seconds = shares[task] * std::exp(width * scatter[task]);
      sum += static_cast<double>(seconds);
      longest = std::max(longest, seconds);
    }
    const double ratio = static_cast<double>(longest) * static_cast<double>(shares.size()) / sum;
    (ratio < problem.longest_over_mean ? low : high) = width;
  }
  double sum = 0;
  for (std::size_t task = 0; task < shares.size(); ++task) {
    shares[task] *= std::exp(low * scatter[task]);
    sum += static_cast<double>(shares[task]);
  }
  for (float& seconds : shares) seconds *= static_cast<float>(problem.work_s / sum);
}

}  // namespace

std::optional<Problem> find_problem(std::string_view name) {
  for (const Problem& problem : kProblems) {
    if (problem.name == name) return problem;
  }
  return std::nullopt;
}

std::vector<float> draw_durations(const Problem& problem, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<float> bounds = draw_bounds(problem.blocks, random);
  const double threshold = find_threshold(bounds, problem.tasks);
  std::vector<float> seconds;
  seconds.reserve(problem.tasks);
  for (const float left : bounds) {
    for (const float right : bounds) {
      const double margin = left + right - threshold;
      if (margin < 0) continue;
      seconds.push_back(static_cast<float>(std::clamp(margin / kFull, kLeastShare, 1.0)));
    }
  }
  seconds.resize(std::min<std::size_t>(seconds.size(), problem.tasks));
  to_seconds(seconds, problem, random);
  return seconds;
}

Seeds in_blocks(std::uint32_t tasks, std::uint32_t ranks) {
  Seeds seeds(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const auto first = static_cast<TaskId>(std::uint64_t{tasks} * rank / ranks);
    const auto end = static_cast<TaskId>(std::uint64_t{tasks} * (rank + 1) / ranks);
    seeds[rank].resize(end - first);
    std::iota(seeds[rank].begin(), seeds[rank].end(), first);
  }
  return seeds;
}

Seeds favoured(const std::vector<float>& durations, std::uint32_t ranks, std::uint32_t period,
               std::uint32_t many) {
  std::vector<TaskId> order(durations.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](TaskId a, TaskId b) { return durations[a] > durations[b]; });
  Seeds seeds(ranks);
  for (std::size_t next = 0; next < order.size();) {
    for (std::uint32_t rank = 0; rank < ranks && next < order.size(); ++rank) {
      const std::uint32_t count = rank % period == 0 ? many : 1;
      for (std::uint32_t i = 0; i < count && next < order.size(); ++i) {
        seeds[rank].push_back(order[next++]);
      }
    }
  }
  return seeds;
}

}  // namespace mh::tasks::sim
