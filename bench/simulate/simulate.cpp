// SPDX-License-Identifier: BSD-3-Clause
// mh-simulate: simulates how ranks process a task collection and prints the results as JSON lines.
// `mh simulate` runs the program, draws the plots and writes the CSV.
//
//   mh-simulate run [OPTIONS]        iterations with one balancer, at one number of cores
//   mh-simulate balancers [OPTIONS]  the table of balancers: time and quality by initial imbalance
//
// Limits: the program has one thread. An iteration of 9.1 million tasks on 163,840 cores takes
// about a minute.
#include <getopt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
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
  bool seeded = false;  // iteration 2 runs tasks where iteration 1 did, without steals or balancer
  bool all = false;     // the first iteration has the null tasks, too
  std::string durations;  // file of --durations; empty: the durations of `problem`
  std::string children;   // file of --children; empty: tasks add no tasks
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
  if (*text == '\0' || *end != '\0' || value < least)
    usage("the value of an option is not a whole number, or is too small");
  return value;
}
double real(const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*text == '\0' || *end != '\0' || !(value >= 0))
    usage("the value of an option is not a number from 0 up");
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
    {"all", [](R& r, const char* v) { r.all = whole(v, 0) != 0; }},
    {"durations", [](R& r, const char* v) { r.durations = v; }},
    {"children", [](R& r, const char* v) { r.children = v; }},
    {"problem",
     [](R& r, const char* v) {
       r.problem =
           named(kProblems, v, "unknown --problem; give hf-be256, hf-be512, hf-be512-20 or tce");
     }},
    {"machine",
     [](R& r, const char* v) {
       r.machine = named(kMachines, v, "unknown --machine; give hopper, titan or intrepid");
     }},
    {"cores", [](R& r, const char* v) { r.cores = count(v, 2); }},
    {"iterations", [](R& r, const char* v) { r.iterations = static_cast<int>(whole(v, 1)); }},
    {"noise", [](R& r, const char* v) { r.noise = real(v); }},
    {"victims",
     [](R& r, const char* v) {
       constexpr auto kWhy = "unknown --victims; give random, hierarchical or nearest";
       r.rules.choice = named(kChoices, v, kWhy).choice;
     }},
    {"seed", [](R& r, const char* v) { r.rules.seed = whole(v, 0); }},
    {"longest-pause-ns", [](R& r, const char* v) { r.rules.patience.longest_ns = whole(v, 1); }},
    {"arity", [](R& r, const char* v) { r.rules.arity = count(v, 1); }},
    {"tasks", [](R& r, const char* v) { r.problem.tasks = count(v, 1); }},
    {"work", [](R& r, const char* v) { r.problem.work_s = real(v); }},
    {"atoms", [](R& r, const char* v) { r.problem.atoms = count(v, 1); }},
    {"blocks", [](R& r, const char* v) { r.problem.blocks = count(v, 1); }},
    {"latency-ns", [](R& r, const char* v) { r.machine.latency_ns = whole(v, 0); }},
    {"overhead-ns", [](R& r, const char* v) { r.machine.overhead_ns = whole(v, 0); }},
    {"bandwidth", [](R& r, const char* v) { r.machine.bytes_per_ns = real(v); }},
    {"server", [](R& r, const char* v) { r.machine.server = whole(v, 0) != 0; }},
    {"local-latency-ns", [](R& r, const char* v) { r.machine.local_latency_ns = whole(v, 0); }},
    {"local-bandwidth", [](R& r, const char* v) { r.machine.local_bytes_per_ns = real(v); }},
    {"take-ns", [](R& r, const char* v) { r.machine.take_ns = whole(v, 0); }},
    {"look-ns", [](R& r, const char* v) { r.machine.look_ns = whole(v, 0); }},
    {"task-bytes", [](R& r, const char* v) { r.machine.task_bytes = count(v, 1); }},
    {"slow-node", [](R& r, const char* v) { r.machine.slow_node = real(v); }},
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
  if (optind != argc) usage("an argument is not an option; options have the form --NAME=VALUE");
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

// --- mh-simulate run: iterations with one balancer (--scheme) ---------------------------------

// Returns the durations of tasks in an iteration: those of `drawn`, each lengthened or shortened by
// a random fraction of up to `noise`.
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

void print(const Request& request, int iteration, const SimulatedIterations& iterations,
           const SimulatedRun& outcome, double wall_s) {
  const auto used = static_cast<std::size_t>(iterations.used());
  std::printf(
      "{\"kind\": \"iteration\", \"iteration\": %d, \"scheme\": \"%s\", \"used\": \"%s\", "
      "\"cores\": %u, \"server\": %d, \"ideal_s\": %.6f, \"last_task_s\": %.6f, "
      "\"end_s\": %.6f, \"in_tasks_s\": %.6f, \"restore_s\": %.6f, \"efficiency\": %.5f, ",
      iteration, request.scheme.c_str(), kBalancerNames[used].first.data(), request.cores,
      static_cast<int>(request.machine.server), outcome.ideal_s, outcome.last_task_s, outcome.end_s,
      outcome.in_tasks_s, iterations.restore_s(), outcome.efficiency());
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
      "{\"kind\": \"balancer\", \"balancer\": \"%s\", \"cores\": %u, "
      "\"period\": %u, \"many\": %u, \"seconds\": %.6f, \"passes\": %d, \"moved\": %llu, "
      "\"over_ideal\": %.6f, \"before\": %.6f}\n",
      balancer, request.cores, period, many, balanced.seconds, balanced.passes,
      static_cast<unsigned long long>(balanced.moved), balanced.over_ideal, before);
  std::fflush(stdout);
}

Balancer balancer_named(const std::string& scheme) {
  for (const auto& [name, balancer] : kBalancerNames) {
    if (name == scheme) return balancer;
  }
  usage("unknown --scheme; give none, steal, retain, plb-central, plb-tree or auto");
}

// The durations of the tasks in each iteration. They are read from a file of 32-bit floats, one
// iteration after the other, or computed for the problem that the options describe.
class Durations {
 public:
  explicit Durations(const Request& request) : request_(request) {
    if (!request.durations.empty()) {
      drawn_ = numbers<float>(request.durations);
      count_ = request.children.empty() ? request.problem.tasks : drawn_.size();
    } else {
      drawn_ = request.all ? all_durations_of(request.problem, request.machine)
                           : durations_of(request.problem, request.machine);
      count_ = drawn_.size();
    }
    if (count_ == 0 || drawn_.size() % count_ != 0)
      usage("the number of durations in the file is not a multiple of --tasks");
  }
  [[nodiscard]] std::uint32_t tasks() const { return static_cast<std::uint32_t>(count_); }
  // Returns the durations of the tasks in the next iteration, with new noise. After the end of the
  // file, the file's last iteration repeats.
  std::vector<float> next() {
    const std::size_t at = std::min<std::size_t>(iteration_++, drawn_.size() / count_ - 1);
    const std::vector<float> part(drawn_.begin() + static_cast<long>(at * count_),
                                  drawn_.begin() + static_cast<long>((at + 1) * count_));
    return with_noise(part, request_.noise, request_.rules.seed + iteration_);
  }

  template <class Number>
  static std::vector<Number> numbers(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    if (!file || bytes.size() % sizeof(Number) != 0)
      usage("cannot read the file of --durations or --children");
    std::vector<Number> found(bytes.size() / sizeof(Number));
    std::memcpy(found.data(), bytes.data(), bytes.size());
    return found;
  }

 private:
  const Request& request_;
  std::vector<float> drawn_;
  std::size_t count_ = 0;
  unsigned iteration_ = 0;
};

void run(const Request& request) {
  const Balancer balancer = balancer_named(request.scheme);
  Durations durations(request);
  std::vector<TaskId> children;
  if (!request.children.empty()) children = Durations::numbers<TaskId>(request.children);
  const std::uint32_t seeds = children.empty() ? durations.tasks() : children.front();
  SimulatedIterations iterations(request.machine, request.rules, request.balance, balancer,
                                 in_blocks(seeds, request.rules.places.ranks));
  for (int iteration = 1; iteration <= request.iterations; ++iteration) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<float> seconds = durations.next();
    if (request.seeded && iteration == 1) iterations.only_seeded();
    const SimulatedRun outcome = iterations.next({seconds, children});
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    print(request, iteration, iterations, outcome, wall.count());
    if (outcome.run != iterations.expected())
      usage("tasks were lost or ran twice; please report this error");
  }
}

// --- mh-simulate balancers: the table of balancers --------------------------------------------

constexpr std::uint32_t kGrid[][2] = {{1, 1}, {2, 2}, {2, 4}, {2, 8}, {4, 2},
                                      {4, 4}, {4, 8}, {8, 2}, {8, 4}, {8, 8}};

// Returns the imbalance of a division of tasks over ranks: the largest load of a rank (the sum of
// the durations of its tasks) over the mean load.
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
  const std::vector<float> durations = durations_of(request.problem, request.machine);
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
  constexpr auto kWhat = "the first argument must be `run` or `balancers`";
  if (argc < 2) usage(kWhat);
  const std::string_view what = argv[1];
  const Request request = parse(argc - 1, argv + 1);
  if (what == "run") {
    run(request);
  } else if (what == "balancers") {
    balancers(request);
  } else {
    usage(kWhat);
  }
  return 0;
}

}  // namespace
}  // namespace mh::tasks::sim

int main(int argc, char** argv) { return mh::tasks::sim::run_all(argc, argv); }
