// SPDX-License-Identifier: BSD-3-Clause
// mh-simulate: processes simulated task collections and prints the results as JSON lines. `mh
// simulate` runs the program, draws the plots and writes the CSV.
//
//   mh-simulate run [OPTIONS]        iterations under one scheme, at one number of cores
//   mh-simulate balancers [OPTIONS]  the table of balancers: time and quality by initial imbalance
//
// Limits: one thread. About a minute for an iteration of 9.1 million tasks on 163,840 cores.
#include <getopt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/balancer_names.hpp"
#include "tasks/retention.hpp"
#include "tasks/sim/balancing.hpp"
#include "tasks/sim/iterations.hpp"
#include "tasks/sim/simulation.hpp"
#include "tasks/sim/workload.hpp"

namespace mh::tasks::sim {
namespace {

struct Request {
  std::string scheme = "retain";
  bool seeded = false;
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

std::uint32_t count(const char* text, std::uint64_t least) {
  return static_cast<std::uint32_t>(whole(text, least));
}

struct Setting {
  const char* name;
  void (*set)(Request& request, const char* value);
};
using R = Request;
constexpr Setting kSettings[] = {
    {"scheme", [](R& r, const char* v) { r.scheme = v; }},
    {"seeded", [](R& r, const char* v) { r.seeded = whole(v, 0) != 0; }},
    {"problem", [](R& r, const char* v) { r.problem = named(kProblems, v, "no such problem"); }},
    {"machine", [](R& r, const char* v) { r.machine = named(kMachines, v, "no such machine"); }},
    {"cores", [](R& r, const char* v) { r.cores = count(v, 2); }},
    {"iterations", [](R& r, const char* v) { r.iterations = static_cast<int>(whole(v, 1)); }},
    {"noise", [](R& r, const char* v) { r.noise = real(v); }},
    {"victims",
     [](R& r, const char* v) { r.rules.choice = named(kChoices, v, "no such choice").choice; }},
    {"seed", [](R& r, const char* v) { r.rules.seed = whole(v, 0); }},
    {"longest-pause-ns", [](R& r, const char* v) { r.rules.patience.longest_ns = whole(v, 1); }},
    {"arity", [](R& r, const char* v) { r.rules.arity = count(v, 1); }},
    {"tasks", [](R& r, const char* v) { r.problem.tasks = count(v, 1); }},
    {"work", [](R& r, const char* v) { r.problem.work_s = real(v); }},
    {"longest-over-mean", [](R& r, const char* v) { r.problem.longest_over_mean = real(v); }},
    {"latency-ns", [](R& r, const char* v) { r.machine.latency_ns = whole(v, 0); }},
    {"overhead-ns", [](R& r, const char* v) { r.machine.overhead_ns = whole(v, 0); }},
    {"bandwidth", [](R& r, const char* v) { r.machine.bytes_per_ns = real(v); }},
    {"server", [](R& r, const char* v) { r.machine.server = whole(v, 0) != 0; }},
    {"node", [](R& r, const char* v) { r.machine.cores_per_node = count(v, 1); }},
    {"constant",
     [](R& r, const char* v) { r.balance.donate_above = r.balance.assign_below = real(v); }},
    {"central-constant", [](R& r, const char* v) { r.balance.central_above = real(v); }},
    {"cap", [](R& r, const char* v) { r.balance.cap_at_longest = whole(v, 0) != 0; }},
    {"branching", [](R& r, const char* v) { r.balance.branching = count(v, 2); }},
    {"passes", [](R& r, const char* v) { r.balance.passes = static_cast<int>(whole(v, 1)); }},
};

void read_options(int argc, char** argv, Request& request) {
  std::vector<option> options;
  for (const Setting& setting : kSettings) {
    options.push_back({setting.name, required_argument, nullptr, 0});
  }
  options.push_back({nullptr, 0, nullptr, 0});
  int index = 0;
  int found = 0;
  while ((found = getopt_long(argc, argv, "", options.data(), &index)) != -1) {
    if (found != 0) std::exit(2);  // getopt_long() has printed the reason
    kSettings[index].set(request, optarg);
  }
  if (optind != argc) usage("there is a word that is no option");
}

Request parse(int argc, char** argv) {
  Request request;
  read_options(argc, argv, request);
  const MachineModel& machine = request.machine;
  auto& patience = request.rules.patience;
  patience.shortest_ns = std::min(patience.shortest_ns, patience.longest_ns);
  const std::uint32_t per_node = machine.cores_per_node;
  request.rules.places = {request.cores, per_node, std::min(machine.cores_per_numa, per_node)};
  return request;
}

// --- one scheme -------------------------------------------------------------------------------

// The durations of an iteration: the drawn durations, each longer or shorter by up to `noise`.
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

Balancer balancer_named(const std::string& scheme) {
  for (const auto& [name, balancer] : kBalancerNames) {
    if (name == scheme) return balancer;
  }
  usage("no such scheme");
}

void run(const Request& request) {
  const Balancer balancer = balancer_named(request.scheme);
  const std::vector<float> drawn = draw_durations(request.problem, request.rules.seed);
  const auto tasks = static_cast<std::uint32_t>(drawn.size());
  Iterations iterations(request.machine, request.rules, request.balance, balancer,
                        in_blocks(tasks, request.rules.places.ranks));
  for (int iteration = 1; iteration <= request.iterations; ++iteration) {
    const auto start = std::chrono::steady_clock::now();
    const auto durations =
        with_noise(drawn, request.noise, request.rules.seed + static_cast<unsigned>(iteration));
    if (request.seeded && iteration == 1) iterations.only_seeded();
    const Outcome outcome = iterations.next({durations});
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    print(request, iteration, kBalancerNames[static_cast<std::size_t>(iterations.used())].first.data(), outcome, wall.count());
    if (outcome.run != tasks) usage("tasks were lost or run twice");
    if (moves_tasks(iterations.used())) {
      print(request, request.scheme.c_str(), iterations.balanced(), 0, 0, 0);
    }
  }
}

// --- the table of balancers -------------------------------------------------------------------

constexpr std::uint32_t kGrid[][2] = {{1, 1}, {2, 2}, {2, 4}, {2, 8}, {4, 2},
                                      {4, 4}, {4, 8}, {8, 2}, {8, 4}, {8, 8}};

// The longest load over the mean load.
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
          balance(Scheme::central, request.machine, request.balance, durations, seeds), period,
          many, before);
    print(request, "tree",
          balance(Scheme::tree, request.machine, request.balance, durations, seeds), period, many,
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
