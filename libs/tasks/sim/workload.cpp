// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/sim/workload.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "tasks/sim/beryllium.hpp"

namespace mh::tasks::sim {
namespace {

constexpr double kPeak = 8.4e9;  // operations a second of a Hopper core, for which work_s holds

// The pairs of shells (groups of basis functions) of a pair of blocks of shells. Each list has the
// logarithms of their Schwarz bounds, the largest first; index: the number of p shells of a pair.
using PairBounds = std::array<std::vector<float>, 3>;

// The pairs of blocks of shells of the beryllium chain. Atoms and shells repeat along the chain, so
// pairs are alike if they have the same *type*: the phase of the first block among the shells of
// its atom, and the distance of the blocks.
class Pairs {
 public:
  explicit Pairs(const Problem& problem)
      : blocks_(problem.blocks), shells_(kShellsOfAtom * problem.atoms / problem.blocks) {
    const std::uint32_t shell_reach = kShellsOfAtom * kReach;
    reach_ = std::min(blocks_ - 1, shell_reach / shells_ + 1);
    for (std::uint32_t phase = 0; phase < kShellsOfAtom; ++phase) {
      for (std::uint32_t at = 0; at <= 2 * reach_; ++at) bounds_.push_back(bounds_of(phase, at));
    }
  }

  [[nodiscard]] std::uint32_t blocks() const { return blocks_; }
  [[nodiscard]] std::uint32_t types() const { return static_cast<std::uint32_t>(bounds_.size()); }
  [[nodiscard]] const PairBounds& bounds(std::uint32_t type) const { return bounds_[type]; }
  // Returns the type of a pair of blocks; types() if the two blocks are too far from each other for
  // a bound above zero.
  [[nodiscard]] std::uint32_t type(std::uint32_t i, std::uint32_t j) const {
    if (j + reach_ < i || j > i + reach_) return types();
    return i % kShellsOfAtom * (2 * reach_ + 1) + j + reach_ - i;
  }
  // Returns the number of pairs of blocks of each type in the chain.
  [[nodiscard]] std::vector<std::uint64_t> counts() const {
    std::vector<std::uint64_t> counts(types());
    for (std::uint32_t i = 0; i < blocks_; ++i) {
      const std::uint32_t first = i < reach_ ? 0 : i - reach_;
      for (std::uint32_t j = first; j <= std::min(blocks_ - 1, i + reach_); ++j) {
        ++counts[type(i, j)];
      }
    }
    return counts;
  }

 private:
  [[nodiscard]] PairBounds bounds_of(std::uint32_t phase, std::uint32_t at) const {
    // The number of the first shell of either block (i, j), far enough from the start of the chain
    // that both blocks lie in it.
    const std::uint32_t i = (phase + kShellsOfAtom * reach_) * shells_;
    const std::uint32_t j = i + at * shells_ - reach_ * shells_;
    PairBounds bounds;
    for (std::uint32_t a = i; a < i + shells_; ++a) {
      for (std::uint32_t b = j; b < j + shells_; ++b) {
        bounds[is_p(a) + is_p(b)].push_back(shell_bound(a, b));
      }
    }
    for (auto& part : bounds) std::ranges::sort(part, std::greater{});
    return bounds;
  }

  std::uint32_t blocks_;
  std::uint32_t shells_;  // of a block
  std::uint32_t reach_;   // in blocks
  std::vector<PairBounds> bounds_;
};

float largest(const PairBounds& bounds) {
  float most = kNoBound;
  for (const auto& part : bounds) {
    if (!part.empty()) most = std::max(most, part.front());
  }
  return most;
}

// Returns the number of pairs of an element of `left` and an element of `right` whose sum is at
// least `threshold`. Both lists are sorted, the largest first. The elements are logarithms, so a
// sum stands for a product of bounds.
std::uint64_t count_above(const std::vector<float>& left, const std::vector<float>& right,
                          float threshold) {
  std::uint64_t count = 0;
  std::size_t fit = right.size();
  for (const float one : left) {
    while (fit > 0 && one + right[fit - 1] < threshold) --fit;
    count += fit;
  }
  return count;
}

// Returns the time in nanoseconds to compute the quartets of shells from two pairs of blocks whose
// bounds reach the threshold.
double cost_of(const PairBounds& left, const PairBounds& right, float threshold) {
  double ns = 0;
  for (std::size_t a = 0; a < left.size(); ++a) {
    for (std::size_t b = 0; b < right.size(); ++b) {
      ns += static_cast<double>(kQuartetNs[a + b]) *
            static_cast<double>(count_above(left[a], right[b], threshold));
    }
  }
  return ns;
}

// Returns log10 of the largest threshold at which at least `wanted` tasks have work:
// a quartet of shells (basis functions) whose integrals are not below the threshold.
float find_threshold(const Pairs& pairs, std::uint64_t wanted) {
  struct Level {
    float bound;
    std::uint64_t tasks;
  };
  const auto counts = pairs.counts();
  std::vector<Level> levels;
  for (std::uint32_t a = 0; a < pairs.types(); ++a) {
    for (std::uint32_t b = 0; b < pairs.types(); ++b) {
      const float bound = largest(pairs.bounds(a)) + largest(pairs.bounds(b));
      levels.push_back({bound, counts[a] * counts[b]});
    }
  }
  std::ranges::sort(levels, std::greater{}, &Level::bound);
  std::uint64_t tasks = 0;
  for (const Level& level : levels) {
    tasks += level.tasks;
    if (tasks >= wanted) return level.bound;
  }
  return levels.back().bound;
}

// Returns the costs of tasks in nanoseconds, by the types of their two pairs of blocks; 0: a task
// without a quartet to compute (null task).
std::vector<float> costs_of(const Pairs& pairs, float threshold) {
  std::vector<float> costs;
  for (std::uint32_t a = 0; a < pairs.types(); ++a) {
    for (std::uint32_t b = 0; b < pairs.types(); ++b) {
      const double ns = cost_of(pairs.bounds(a), pairs.bounds(b), threshold);
      costs.push_back(static_cast<float>(ns));
    }
  }
  return costs;
}

// Calls `task(cost)` for all tasks in the order of their indices, with the cost in nanoseconds; the
// cost of a null task is 0. Without `with_far`, tasks with blocks that are too far from each other
// are left out; all of these are null tasks.
template <class Task>
void for_each_task(const Problem& problem, bool with_far, Task task) {
  const Pairs pairs(problem);
  const auto costs = costs_of(pairs, find_threshold(pairs, problem.tasks));
  const std::uint32_t blocks = pairs.blocks();
  std::vector<std::uint32_t> types;
  for (std::uint32_t i = 0; i < blocks * blocks; ++i) {
    const std::uint32_t type = pairs.type(i / blocks, i % blocks);
    if (with_far || type != pairs.types()) types.push_back(type);
  }
  for (const std::uint32_t left : types) {
    for (const std::uint32_t right : types) {
      const bool far = left == pairs.types() || right == pairs.types();
      task(far ? 0.0F : costs[left * pairs.types() + right]);
    }
  }
}

void scale(std::vector<float>& durations, double to) {
  double sum = 0;
  for (const float one : durations) sum += std::max(0.0, static_cast<double>(one));
  const auto factor = static_cast<float>(to / sum);
  for (float& one : durations) one *= one > 0 ? factor : 1;
}

double work_on(const Problem& problem, const MachineModel& machine) {
  return problem.work_s * kPeak / machine.flops;
}

// --- the tasks of the tensor contraction ----------------------------------------------------

using Tiles = std::array<std::vector<std::uint32_t>, 4>;  // sizes, by spatial block

Tiles tiles_of(const std::array<std::uint32_t, 4>& sizes) {
  constexpr std::uint32_t kTile = 20;
  Tiles tiles;
  for (std::size_t block = 0; block < sizes.size(); ++block) {
    for (std::uint32_t left = sizes[block]; left > 0; left -= tiles[block].back()) {
      tiles[block].push_back(std::min(left, kTile));
    }
  }
  return tiles;
}

// Returns the seconds of the task that computes a tile of C with rows x columns elements. `inner`:
// the tile sizes of the summed indices a and b. `product`: the product, in the symmetry group D2,
// of the spatial blocks of C's first two indices; the blocks of a and b must have the same product.
double contraction_s(const Tiles& inner, std::size_t product, double rows, double columns,
                     const MachineModel& machine) {
  double seconds = 0;
  for (std::size_t a = 0; a < inner.size(); ++a) {
    for (const double x : inner[a]) {
      for (const double y : inner[a ^ product]) {
        const double bytes = 8 * x * y * (rows + columns);
        const double messages = 4.0 * static_cast<double>(machine.latency_ns + machine.overhead_ns);
        seconds += 2 * x * y * rows * columns / machine.flops;
        seconds += (bytes / machine.bytes_per_ns + messages) * 1e-9;
      }
    }
  }
  return seconds;
}

std::vector<float> contraction(const MachineModel& machine) {
  const Tiles outer = tiles_of({240, 180, 100, 210});
  const Tiles inner = tiles_of({20, 24, 20, 20});
  struct Tile {
    std::size_t block;
    double size;
  };
  std::vector<Tile> tiles;
  for (std::size_t block = 0; block < outer.size(); ++block) {
    for (const std::uint32_t size : outer[block]) tiles.push_back({block, double(size)});
  }
  std::vector<float> durations;
  for (const Tile& i : tiles) {
    for (const Tile& j : tiles) {
      for (const Tile& k : tiles) {
        for (const Tile& l : tiles) {
          const std::size_t product = i.block ^ j.block;
          if (product != (k.block ^ l.block)) continue;
          const double rows = i.size * j.size;
          const double columns = k.size * l.size;
          durations.push_back(
              static_cast<float>(contraction_s(inner, product, rows, columns, machine)));
        }
      }
    }
  }
  return durations;
}

}  // namespace

std::vector<float> durations_of(const Problem& problem, const MachineModel& machine) {
  if (problem.kind == WorkloadKind::contraction) return contraction(machine);
  std::vector<float> durations;
  durations.reserve(problem.tasks);
  for_each_task(problem, false, [&](float cost) {
    if (cost > 0) durations.push_back(cost);
  });
  scale(durations, work_on(problem, machine));
  return durations;
}

std::vector<float> all_durations_of(const Problem& problem, const MachineModel& machine) {
  const double tile = 8.0 * 40 * 40;
  const auto trip = static_cast<double>(2 * (machine.latency_ns + machine.overhead_ns));
  const auto null = static_cast<float>(-2e-9 * (trip + tile / machine.bytes_per_ns));
  std::vector<float> durations;
  const std::size_t pairs = std::size_t{problem.blocks} * problem.blocks;
  durations.reserve(pairs * pairs);
  for_each_task(problem, true, [&](float cost) { durations.push_back(cost > 0 ? cost : null); });
  scale(durations, work_on(problem, machine));
  return durations;
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
