// SPDX-License-Identifier: BSD-3-Clause
// mh-victims: compares the policies of MH_VICTIM, by which a waiting rank chooses the rank that
// gets its core, on simulated nodes.
//
//   mh-victims [--policy none|most-work|fewest-lenders|nearest|random|ideal]   default: none
//              [--loops policies|paper]                                        default: policies
//
// Prints lines as the benchmark programs of bench/mpi do, with simulated times, for four
// distributions of work over the ranks of a node, or for the loops of the figures of MPI Workshare
// (paper.cpp). Policy `none`: no rank lends; `ideal`: the mean of the cores' work. The limits are
// those of the model (node.hpp). Every run prints the same times.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "victims/node.hpp"
#include "victims/paper.hpp"

namespace mh::victims {
namespace {

constexpr std::uint32_t kNumaNodes = 4;
constexpr std::uint32_t kRanks[] = {8, 32, 128};
constexpr std::size_t kIterations = 1000;  // iterations of each rank's loop
constexpr double kMeanNs = 2e3;            // mean time of an iteration over all ranks
constexpr std::uint64_t kSeeds = 9;        // runs of each simulation

enum class Shape : std::uint8_t { triangle, one_late, node_late, any };
struct Named {
  Shape shape;
  const char* name;
};
constexpr Named kShapes[] = {{Shape::triangle, "triangle"},
                             {Shape::one_late, "one rank late"},
                             {Shape::node_late, "a NUMA node late"},
                             {Shape::any, "random"}};

// Returns the relative cost of an iteration; costs_of() scales the costs of all iterations to the
// mean kMeanNs. `iteration` is its position in the rank's loop, from 0 to 1. `of_rank` is a random
// number, drawn once for the rank.
double weight(Shape shape, std::uint32_t rank, std::uint32_t ranks, double iteration,
              double of_rank) {
  switch (shape) {
    case Shape::triangle:
      return rank + iteration;
    case Shape::one_late:
      return rank + 1 == ranks ? 6 : 1;
    case Shape::node_late:
      return rank < ranks / kNumaNodes ? 3 : 1;
    case Shape::any:
      return of_rank;
  }
  return 1;
}

Costs costs_of(Shape shape, std::uint32_t ranks, std::uint64_t seed) {
  std::mt19937_64 dice(seed);
  std::uniform_real_distribution<double> part(0, 1);
  Costs costs(ranks);
  double sum = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const double of_rank = part(dice);
    for (std::size_t i = 0; i < kIterations; ++i) {
      const double iteration = static_cast<double>(i) / kIterations;
      costs[rank].push_back(weight(shape, rank, ranks, iteration, of_rank));
      sum += costs[rank].back();
    }
  }
  const double scale = kMeanNs * static_cast<double>(kIterations) * ranks / sum;
  for (auto& of_rank : costs) {
    for (double& cost : of_rank) cost *= scale;
  }
  return costs;
}

double longest(const Costs& costs) {
  double most = 0;
  for (const auto& of_rank : costs) {
    most = std::max(most, std::accumulate(of_rank.begin(), of_rank.end(), 0.0));
  }
  return most;
}

std::optional<VictimPolicy> policy_of(std::string_view name) {
  if (name == "most-work") return VictimPolicy::most_work;
  if (name == "fewest-lenders") return VictimPolicy::fewest_lenders;
  if (name == "nearest") return VictimPolicy::nearest;
  if (name == "random") return VictimPolicy::random;
  return std::nullopt;
}

double time_of(const Costs& costs, std::string_view policy, std::uint64_t seed) {
  if (policy == "none") return longest(costs);
  if (policy == "ideal") return kMeanNs * static_cast<double>(kIterations);
  return SimulatedNode(costs, kNumaNodes, *policy_of(policy), seed).run();
}

void print(const Named& named, std::uint32_t ranks, std::string_view policy) {
  std::printf(R"({"kind": "loop", "name": "%s, %u ranks", "ranks": %u, "mean_ns": [)", named.name,
              ranks, ranks);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const double time = time_of(costs_of(named.shape, ranks, seed), policy, seed);
    std::printf("%s%.0f", seed == 0 ? "" : ", ", time);
  }
  std::printf("]}\n");
}

void print_paper(std::string_view policy) {
  for (const PaperLoop& loop : paper_loops()) {
    double time = loop.ideal;
    if (policy == "none") time = loop.alone();
    if (const auto known = policy_of(policy)) time = loop.shared(*known);
    std::printf(R"({"kind": "loop", "name": "%s", "ranks": %u, "mean_ns": [%.0f]})"
                "\n",
                loop.name.c_str(), loop.ranks(), time);
  }
}

struct Options {
  std::string policy = "none";
  std::string loops = "policies";
};

// Returns the options of the command line, or nothing if the command line is wrong.
std::optional<Options> options_of(int argc, char** argv) {
  Options found;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return std::nullopt;
    const std::string_view option = argv[i];
    if (option != "--policy" && option != "--loops") return std::nullopt;
    (option == "--policy" ? found.policy : found.loops) = argv[i + 1];
  }
  const bool known =
      found.policy == "none" || found.policy == "ideal" || policy_of(found.policy).has_value();
  if (!known || (found.loops != "policies" && found.loops != "paper")) return std::nullopt;
  return found;
}

int main_of(int argc, char** argv) {
  const std::optional<Options> options = options_of(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: mh-victims [--policy none|most-work|fewest-lenders|nearest|random|"
                 "ideal] [--loops policies|paper]\n");
    return 2;
  }
  std::printf(R"({"kind": "config", "program": "victims", "ranks": %u, "hosts": [], "cpus": []})"
              "\n",
              *std::max_element(std::begin(kRanks), std::end(kRanks)));
  if (options->loops == "paper") {
    print_paper(options->policy);
    return 0;
  }
  for (const Named& named : kShapes) {
    for (const std::uint32_t ranks : kRanks) print(named, ranks, options->policy);
  }
  return 0;
}

}  // namespace
}  // namespace mh::victims

int main(int argc, char** argv) { return mh::victims::main_of(argc, argv); }
