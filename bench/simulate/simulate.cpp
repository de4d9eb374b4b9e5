// SPDX-License-Identifier: BSD-3-Clause
// mh-simulate: processes simulated task collections and prints what happened, as JSON lines. `mh
// simulate` runs it, draws the plots and writes the CSV.
//
//   mh-simulate run [OPTIONS]        iterations under one scheme, at one number of cores
//   mh-simulate balancers [OPTIONS]  the table of balancers: time and quality by initial imbalance
//
// Limits: one thread. About a minute for an iteration of 9.1 million tasks on 163,840 cores.
#include <getopt.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/sim/balancing.hpp"
#include "tasks/sim/simulation.hpp"

namespace mh::tasks::sim {
namespace {

struct Request {
  std::string scheme = "retain";
  std::string order = "longest";
  Problem problem = kProblems[1];
  MachineModel machine;
  std::uint32_t cores = 2400;
  int iterations = 5;
  double noise = 0.01;
  Rules rules;
  Balance balance;
};

[[noreturn]] void usage(const char* why) {
  std::fprintf(stderr, "mh-simulate: %s\n", why);
  std::exit(2);
}

template <class Table>
auto named(const Table& table, std::string_view name, const char* why) {
  for (const auto& one : table) {
    if (one.name == name) return one;
  }
  usage(why);
}

struct NamedChoice {
  std::string_view name;
  VictimChoice choice;
};
constexpr NamedChoice kChoices[] = {{"random", VictimChoice::random},
                                    {"hierarchical", VictimChoice::hierarchical},
                                    {"nearest", VictimChoice::nearest}};

std::uint64_t whole(const char* text, std::uint64_t least) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < least) usage("an option's value is no such number");
  return value;
}
double real(const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*text == '\0' || *end != '\0' || !(value >= 0)) usage("an option's value is no number");
  return value;
}

enum Key : int {
  scheme = 256,
  problem,
  machine,
  cores,
  iterations,
  noise,
  victims,
  seed,
  order,
  server,
  longest_pause,
  arity,
  tasks,
  work,
  ratio,
  latency,
  overhead,
  bandwidth,
  node,
  constant,
  branching,
  passes
};
constexpr option kOptions[] = {{"scheme", 1, nullptr, scheme},
                               {"problem", 1, nullptr, problem},
                               {"machine", 1, nullptr, machine},
                               {"cores", 1, nullptr, cores},
                               {"iterations", 1, nullptr, iterations},
                               {"noise", 1, nullptr, noise},
                               {"victims", 1, nullptr, victims},
                               {"seed", 1, nullptr, seed},
                               {"order", 1, nullptr, order},
                               {"server", 1, nullptr, server},
                               {"longest-pause-ns", 1, nullptr, longest_pause},
                               {"arity", 1, nullptr, arity},
                               {"tasks", 1, nullptr, tasks},
                               {"work", 1, nullptr, work},
                               {"longest-over-mean", 1, nullptr, ratio},
                               {"latency-ns", 1, nullptr, latency},
                               {"overhead-ns", 1, nullptr, overhead},
                               {"bandwidth", 1, nullptr, bandwidth},
                               {"node", 1, nullptr, node},
                               {"constant", 1, nullptr, constant},
                               {"branching", 1, nullptr, branching},
                               {"passes", 1, nullptr, passes},
                               {nullptr, 0, nullptr, 0}};

void set_machine(MachineModel& model, int key, const char* text) {
  switch (key) {
    case latency:
      model.latency_ns = whole(text, 0);
      break;
    case overhead:
      model.overhead_ns = whole(text, 0);
      break;
    case bandwidth:
      model.bytes_per_ns = real(text);
      break;
    case server:
      model.server = whole(text, 0) != 0;
      break;
    case node:
      model.cores_per_node = static_cast<std::uint32_t>(whole(text, 1));
      break;
    default:
      usage("no such option");
  }
}

void set(Request& request, int key, const char* text) {
  switch (key) {
    case scheme:
      request.scheme = text;
      break;
    case order:
      request.order = text;
      break;
    case problem:
      request.problem = named(kProblems, text, "no such problem");
      break;
    case machine:
      request.machine = named(kMachines, text, "no such machine");
      break;
    case cores:
      request.cores = static_cast<std::uint32_t>(whole(text, 2));
      break;
    case iterations:
      request.iterations = static_cast<int>(whole(text, 1));
      break;
    case noise:
      request.noise = real(text);
      break;
    case victims:
      request.rules.choice = named(kChoices, text, "no such choice").choice;
      break;
    case seed:
      request.rules.seed = whole(text, 0);
      break;
    case longest_pause:
      request.rules.patience.longest_ns = whole(text, 1);
      break;
    case arity:
      request.rules.arity = static_cast<std::uint32_t>(whole(text, 1));
      break;
    case tasks:
      request.problem.tasks = static_cast<std::uint32_t>(whole(text, 1));
      break;
    case work:
      request.problem.work_s = real(text);
      break;
    case ratio:
      request.problem.longest_over_mean = real(text);
      break;
    case constant:
      request.balance.donate_above = request.balance.assign_below = real(text);
      break;
    case passes:
      request.balance.passes = static_cast<int>(whole(text, 1));
      break;
    case branching:
      request.balance.branching = static_cast<std::uint32_t>(whole(text, 2));
      break;
    default:
      set_machine(request.machine, key, text);
  }
}

Request parse(int argc, char** argv) {
  Request request;
  int key = 0;
  while ((key = getopt_long(argc, argv, "", kOptions, nullptr)) != -1) {
    if (key == '?') std::exit(2);
    set(request, key, optarg);
  }
  auto& patience = request.rules.patience;
  patience.shortest_ns = std::min(patience.shortest_ns, patience.longest_ns);
  const std::uint32_t workers = request.machine.workers(request.cores);
  if (workers < 2) usage("fewer than two cores run tasks");
  request.rules.places = {
      workers, request.machine.workers_per_node(),
      std::min(request.machine.cores_per_numa, request.machine.workers_per_node())};
  return request;
}

// --- one scheme -------------------------------------------------------------------------------

// The durations of one iteration: those drawn, each by up to `noise` longer or shorter.
std::vector<float> with_noise(const std::vector<float>& drawn, double noise, std::uint64_t seed) {
  std::vector<float> durations = drawn;
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (float& duration : durations) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const double unit = static_cast<double>(state >> 11U) * 0x1p-52 - 1;  // in [-1, 1)
    duration *= static_cast<float>(1 + noise * unit);
  }
  return durations;
}

void print(const Request& request, int iteration, const char* seeded, const Outcome& outcome,
           double wall_s) {
  std::printf(
      "{\"kind\": \"iteration\", \"iteration\": %d, \"scheme\": \"%s\", \"seeded\": \"%s\", "
      "\"cores\": %u, \"ranks\": %u, \"ideal_s\": %.6f, \"last_task_s\": %.6f, "
      "\"end_s\": %.6f, \"efficiency\": %.5f, ",
      iteration, request.scheme.c_str(), seeded, request.cores, request.rules.places.ranks,
      outcome.ideal_s, outcome.last_task_s, outcome.end_s, outcome.efficiency());
  std::printf(
      "\"attempts\": %.4f, \"attempts_std\": %.4f, \"steals\": %.4f, \"steals_std\": %.4f, "
      "\"tasks\": %.4f, \"tasks_std\": %.4f, \"run\": %llu, \"rounds\": %u, "
      "\"events\": %llu, \"wall_s\": %.2f, \"utilization\": [",
      outcome.attempts.mean, outcome.attempts.deviation, outcome.successes.mean,
      outcome.successes.deviation, outcome.tasks.mean, outcome.tasks.deviation,
      static_cast<unsigned long long>(outcome.run), outcome.rounds,
      static_cast<unsigned long long>(outcome.events), wall_s);
  const char* comma = "";
  for (const float value : outcome.utilization) {
    std::printf("%s%.4f", comma, static_cast<double>(value));
    comma = ", ";
  }
  std::printf("]}\n");
  std::fflush(stdout);
}

void print(const Request& request, const char* balancer, const Balanced& balanced,
           std::uint32_t period, std::uint32_t many, double before) {
  std::printf(
      "{\"kind\": \"balancer\", \"balancer\": \"%s\", \"cores\": %u, \"ranks\": %u, "
      "\"period\": %u, \"many\": %u, \"seconds\": %.6f, \"moved\": %llu, "
      "\"over_ideal\": %.6f, \"before\": %.6f}\n",
      balancer, request.cores, request.rules.places.ranks, period, many, balanced.seconds,
      static_cast<unsigned long long>(balanced.moved), balanced.over_ideal, before);
  std::fflush(stdout);
}

// Which balancer a scheme uses from the second iteration on.
std::optional<Balancer> balancer_of(const std::string& scheme) {
  if (scheme == "plb-central") return Balancer::central;
  if (scheme == "plb-tree") return Balancer::tree;
  return std::nullopt;
}

// What is added last is taken first: so the longest come last, and thieves take the shortest.
void longest_last(Seeds& seeds, const std::vector<float>& durations) {
  for (auto& own : seeds) {
    std::ranges::stable_sort(own, [&](TaskId a, TaskId b) { return durations[a] < durations[b]; });
  }
}

void run(Request request) {
  const auto balancer = balancer_of(request.scheme);
  if (!balancer && request.scheme != "none" && request.scheme != "steal" &&
      request.scheme != "retain") {
    usage("no such scheme");
  }
  const std::vector<float> drawn = draw_durations(request.problem, request.rules.seed);
  const auto count = static_cast<std::uint32_t>(drawn.size());
  const Seeds first = in_blocks(count, request.rules.places.ranks);
  Seeds seeds = first;
  const char* seeded = "blocks";
  for (int iteration = 1; iteration <= request.iterations; ++iteration) {
    const auto start = std::chrono::steady_clock::now();
    const auto durations =
        with_noise(drawn, request.noise, request.rules.seed + static_cast<unsigned>(iteration));
    request.rules.steal = request.scheme != "none" && (!balancer || iteration == 1);
    Simulation simulation(request.machine, request.rules, durations, seeds);
    const Outcome outcome = simulation.run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    print(request, iteration, seeded, outcome, wall.count());
    if (outcome.run != count) usage("tasks were lost or run twice");
    if (request.scheme == "retain") {
      seeds = simulation.take_executed();
      if (request.order == "longest") longest_last(seeds, durations);
      seeded = "executed";
    } else if (balancer) {
      const Balanced balanced = balance(*balancer, request.machine, request.balance, durations,
                                        simulation.take_executed());
      print(request, request.scheme.c_str(), balanced, 0, 0, 0);
      seeds = balanced.seeds;
      seeded = "balanced";
    }
  }
}

// --- the table of balancers -------------------------------------------------------------------

constexpr std::uint32_t kGrid[][2] = {{1, 1}, {2, 2}, {2, 4}, {2, 8}, {4, 2},
                                      {4, 4}, {4, 8}, {8, 2}, {8, 4}, {8, 8}};

// How far the longest load is above the mean.
double imbalance(const Seeds& seeds, const std::vector<float>& durations) {
  double sum = 0;
  double longest = 0;
  for (const auto& own : seeds) {
    double load = 0;
    for (const TaskId task : own) load += durations[task];
    sum += load;
    longest = std::max(longest, load);
  }
  return longest / (sum / static_cast<double>(seeds.size()));
}

void balancers(const Request& request) {
  const std::vector<float> durations = draw_durations(request.problem, request.rules.seed);
  for (const auto& [period, many] : kGrid) {
    const Seeds seeds = favoured(durations, request.rules.places.ranks, period, many);
    const double before = imbalance(seeds, durations);
    print(request, "central",
          balance(Balancer::central, request.machine, request.balance, durations, seeds), period,
          many, before);
    print(request, "tree",
          balance(Balancer::tree, request.machine, request.balance, durations, seeds), period, many,
          before);
  }
}

int run_all(int argc, char** argv) {
  if (argc < 2) usage("say `run` or `balancers`");
  const std::string_view what = argv[1];
  const Request request = parse(argc - 1, argv + 1);
  if (what == "run") {
    run(request);
  } else if (what == "balancers") {
    balancers(request);
  } else {
    usage("say `run` or `balancers`");
  }
  return 0;
}

}  // namespace
}  // namespace mh::tasks::sim

int main(int argc, char** argv) { return mh::tasks::sim::run_all(argc, argv); }
