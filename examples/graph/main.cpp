// SPDX-License-Identifier: BSD-3-Clause
// Distributed graph programs over LCI. A build with MH_GRAPH_MPI also runs over MPI, a build with
// MH_GRAPH_TCP over TCP.
//
//   graph PROGRAM [--scale N] [--degree N] [--kronecker] [--file PATH] [--cut edges|vertices]
//         [--source V] [--rounds N] [--roots N] [--trials N] [--together]
//         [--backend lci|probe|rma|tcp[,...]] [--output PREFIX]
//
// PROGRAM is bfs, cc, sssp, pagerank or graph500. In bfs, cc, sssp and pagerank, every rank checks
// its own vertices against a serial run. graph500 searches from --roots roots and checks the trees
// by the rules of Graph500. Rank 0 prints the configuration, the result of the check, and the sum
// of the times of all rounds. The time of a round is the slowest rank's, the median over --trials.
// With --together all ranks begin each round together, so no rank waits in a round for other ranks
// to compute. The last lines have the bytes of communication buffers on each host. Several back
// ends take turns, trial by trial, so that their times compare on a machine whose speed changes.
// With --output each rank writes "VERTEX VALUE" of its vertices to PREFIX.RANK.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <iomanip>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "graph500.hpp"
#include "lci_exchange.hpp"
#include "programs.hpp"
#if MH_GRAPH_MPI
#include "mpi_exchange.hpp"
#endif
#if MH_GRAPH_TCP
#include "tcp_exchange.hpp"  // bench/lci
#endif

namespace {

using graph::Exchange;
using graph::Graph;

struct Options {
  std::string program = "bfs";
  std::vector<std::string> backends = {"lci"};
  std::string file;
  std::string output;
  std::string cut = "edges";
  unsigned scale = 12;
  unsigned degree = 16;
  bool kronecker = false;
  bool together = false;
  graph::Vertex source = 0;
  int rounds = 20;
  int roots = 8;
  int trials = 1;
};

// Parses a number into `number`. Returns false if the text is not a number from `least` to `most`.
template <class Number>
bool read(const char* text, Number& number, Number least, Number most) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc{} && stop == end && number >= least && number <= most;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream rest(text);
  for (std::string word; std::getline(rest, word, ',');) words.push_back(word);
  return words;
}

bool read_option(const std::string& word, const char* value, Options& options) {
  if (word == "--scale") return read(value, options.scale, 1U, 30U);
  if (word == "--degree") return read(value, options.degree, 1U, 1U << 20U);
  if (word == "--source") return read(value, options.source, graph::Vertex{0}, ~graph::Vertex{0});
  if (word == "--rounds") return read(value, options.rounds, 1, 1 << 20);
  if (word == "--roots") return read(value, options.roots, 1, 64);
  if (word == "--trials") return read(value, options.trials, 1, 1000);
  if (word == "--file") options.file = value;
  if (word == "--output") options.output = value;
  if (word == "--backend") options.backends = split(value);
  if (word == "--cut") options.cut = value;
  if (word == "--cut") return options.cut == "edges" || options.cut == "vertices";
  return word == "--file" || word == "--output" || word == "--backend";
}

bool parse(int argc, char** argv, Options& options) {
  if (argc < 2) return false;
  options.program = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--kronecker") {
      options.kronecker = true;
    } else if (word == "--together") {
      options.together = true;
    } else if (++i == argc || !read_option(word, argv[i], options)) {
      return false;
    }
  }
  return true;
}

std::unique_ptr<Exchange> open_backend(const std::string& name) {
  if (name == "lci") return std::make_unique<graph::LciExchange>();
#if MH_GRAPH_MPI
  if (name == "probe") return std::make_unique<graph::ProbeExchange>();
  if (name == "rma") return std::make_unique<graph::RmaExchange>();
#endif
#if MH_GRAPH_TCP
  if (name == "tcp") return std::make_unique<graph::TcpExchange>();
#endif
  return nullptr;
}

// The results of this rank with one back end, over all trials.
struct Account {
  std::int64_t wrong = 0;
  std::vector<double> seconds;  // seconds of each round, over all trials
  std::size_t memory = 0;
  std::size_t bytes = 0;  // bytes sent
};

// A back end for communication, and with it this rank's part of the graph and this rank's results.
struct Way {
  std::string backend;
  std::unique_ptr<Exchange> exchange;
  graph::Partition partition;
  Account account;

  // Adds the rounds of a trial to `account`. Called between the program's own rounds and the check
  // of its result, which has rounds as well. The memory is that of the first trial: memory() is a
  // peak, which in later trials includes the checks of earlier ones.
  void note_rounds() {
    if (account.seconds.empty()) account.memory = exchange->memory();
    const std::vector<double>& seconds = exchange->seconds();
    account.seconds.insert(account.seconds.end(), seconds.begin(), seconds.end());
    account.bytes += exchange->bytes();
  }
};

// A graph program: runs one trial on a back end. Returns the number of this rank's vertices that
// have a wrong value.
using Program = std::function<std::int64_t(Way&)>;

// --- programs that are checked against a serial run --------------------------------------------

// Ends a trial. Returns the number of vertices of this rank whose value in `mine` differs from the
// serial value in `all`. Writes this rank's values to a file if `output` is not empty.
template <class Value, class Same>
std::int64_t finish(const Way& way, const std::string& output, const std::vector<Value>& mine,
                    const std::vector<Value>& all, Same same) {
  const graph::Vertex low = way.partition.low();
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < mine.size(); ++i) wrong += same(mine[i], all[low + i]) ? 0 : 1;
  if (output.empty()) return wrong;
  std::ofstream file(output + '.' + std::to_string(way.exchange->rank()));
  file << std::setprecision(17);
  for (std::size_t i = 0; i < mine.size(); ++i) file << low + i << ' ' << mine[i] << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + output);
  return wrong;
}

template <class Kind>
Program minimum(const Options& options, const Graph& g) {
  const graph::Vertex source = options.source;
  return [&options, source, all = graph::serial_minimum<Kind>(g, source)](Way& way) {
    const auto mine = graph::Minimum<Kind>(way.partition, source, *way.exchange).run();
    way.note_rounds();
    return finish(way, options.output, mine, all, std::equal_to<>{});
  };
}

Program pagerank(const Options& options, const Graph& g) {
  const int rounds = options.rounds;
  return [&options, &g, rounds, all = graph::serial_pagerank(g, rounds)](Way& way) {
    const auto mine = graph::run_pagerank(g, way.partition, rounds, *way.exchange);
    way.note_rounds();
    // The serial run adds in another order than the ranks, so a small difference is allowed.
    const auto same = [](double a, double b) { return std::abs(a - b) <= 1e-12 + 1e-9 * b; };
    return finish(way, options.output, mine, all, same);
  };
}

// --- Graph500: search and check of trees --------------------------------------------------------

// Collective. Prints a line for each of the five checks that fails at this rank's vertices. Returns
// the number of failures.
std::int64_t check_tree(const Graph& g, Way& way, graph::Tree& tree) {
  graph::complete(way.partition, *way.exchange, tree);
  const auto found = graph::violations(g, tree, way.partition.low(), way.partition.high());
  for (int check = 0; check < graph::kTreeChecks; ++check) {
    if (found.of[check] == 0) continue;
    std::fprintf(stderr, "rank %d, root %u: %llu times not so: %s\n", way.exchange->rank(),
                 tree.root, static_cast<unsigned long long>(found.of[check]),
                 graph::kTreeCheckNames[check]);
  }
  return static_cast<std::int64_t>(found.all());
}

// Collective. Searches from all roots, then checks the trees, and prints the rate. The rate counts
// the edges of the graph without self-loops and repeated edges. Returns the number of failed
// checks.
std::int64_t search_all(const Graph& g, int roots, Way& way) {
  graph::TreeSearch search(way.partition, *way.exchange);
  std::vector<graph::Tree> trees;
  std::vector<double> spent;
  for (const graph::Vertex root : graph::draw_roots(g, roots)) {
    (void)way.exchange->sum(0);
    const auto start = std::chrono::steady_clock::now();
    trees.push_back(search.run(root));
    spent.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  way.note_rounds();
  std::int64_t wrong = 0;
  double seconds_an_edge = 0;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    wrong += check_tree(g, way, trees[i]);
    seconds_an_edge += spent[i] / static_cast<double>(graph::edges_of(g, trees[i]));
  }
  if (way.exchange->rank() == 0) {
    std::printf("%zu searches, %.0f edges/s (harmonic mean)\n", trees.size(),
                static_cast<double>(trees.size()) / seconds_an_edge);
  }
  return wrong;
}

Program graph500(const Options& options, const Graph& g) {
  return [&g, roots = options.roots](Way& way) { return search_all(g, roots, way); };
}

// --- running and reporting all programs ---------------------------------------------------------

Program program_of(const Options& options, const Graph& g) {
  const std::string& name = options.program;
  if (name == "bfs") return minimum<graph::Bfs>(options, g);
  if (name == "sssp") return minimum<graph::Sssp>(options, g);
  if (name == "cc") return minimum<graph::Components>(options, g);
  if (name == "pagerank") return pagerank(options, g);
  if (name == "graph500") return graph500(options, g);
  throw std::runtime_error("no program " + name);
}

// Runs a trial on each back end, then the next trial on each. In each trial another back end is
// first.
void run_trials(const Program& program, int trials, std::vector<Way>& ways) {
  for (std::size_t trial = 0; trial < static_cast<std::size_t>(trials); ++trial) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      Way& way = ways[(trial + i) % ways.size()];
      way.exchange->forget_rounds();
      way.account.wrong += program(way);
    }
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Collective. Returns the seconds of all rounds of a trial. The time of a round is the slowest
// rank's, the median over the trials. All trials have the same number of rounds.
double seconds_in_rounds(const Way& way, std::size_t trials) {
  const std::vector<double>& all_seconds = way.account.seconds;
  const std::size_t rounds = all_seconds.size() / trials;
  double all = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<double> of_trials;
    for (std::size_t trial = 0; trial < trials; ++trial) {
      const double seconds = all_seconds[trial * rounds + round];
      const std::int64_t most = way.exchange->most(std::llround(1e9 * seconds));
      of_trials.push_back(1e-9 * static_cast<double>(most));
    }
    all += median(of_trials);
  }
  return all;
}

struct Host {
  int ranks = 0;
  std::size_t memory = 0;
};

// Collective. Returns for each host, by the host's name, the number of its ranks and the bytes of
// their communication buffers.
std::map<std::string, Host> hosts_of(const Way& way) {
  char name[128] = "";
  if (::gethostname(name, sizeof name - 1) != 0) std::strcpy(name, "?");
  std::ostringstream mine;
  mine << name << ' ' << way.account.memory;
  std::map<std::string, Host> hosts;
  for (const std::string& text : way.exchange->all(mine.str())) {
    std::istringstream words(text);
    std::string host;
    std::size_t memory = 0;
    words >> host >> memory;
    ++hosts[host].ranks;
    hosts[host].memory += memory;
  }
  return hosts;
}

// Collective. Rank 0 prints the results of a back end. Returns true if all values are right at all
// ranks.
bool report(const Options& options, const Graph& g, const Way& way) {
  const bool right = way.exchange->sum(way.account.wrong) == 0;
  const auto trials = static_cast<std::size_t>(options.trials);
  const double seconds = seconds_in_rounds(way, trials);
  const auto hosts = hosts_of(way);
  if (way.exchange->rank() != 0) return right;
  std::printf(
      "%s %s %d ranks, %s cut, %u vertices, %zu edges: %s, %.3f ms in rounds; %zu rounds, "
      "%zu bytes sent\n",
      options.program.c_str(), way.backend.c_str(), way.exchange->size(), options.cut.c_str(),
      g.vertices, g.neighbours.size(), right ? "right" : "WRONG", 1e3 * seconds,
      way.account.seconds.size() / trials, way.account.bytes / trials);
  for (const auto& [host, has] : hosts) {
    std::printf("host %s: %d ranks, %zu bytes of communication buffers\n", host.c_str(), has.ranks,
                has.memory);
  }
  return right;
}

// Opens the back ends of --backend. Returns an empty vector if this build lacks one of them.
std::vector<Way> open_ways(const Options& options, const Graph& g) {
  std::vector<Way> ways;
  for (const std::string& name : options.backends) {
    std::unique_ptr<Exchange> exchange = open_backend(name);
    if (exchange == nullptr) return {};
    if (options.together) exchange->begin_together();
    const auto cut = options.cut == "edges" ? graph::Cut::edges : graph::Cut::vertices;
    graph::Partition partition(g, cut, exchange->rank(), exchange->size());
    ways.push_back({name, std::move(exchange), std::move(partition), {}});
  }
  return ways;
}

int live(const Options& options) {
  const Graph g = options.file.empty()
                      ? graph::recursive(options.scale, options.degree,
                                         options.kronecker ? graph::kKronecker : graph::kRmat, 1)
                      : graph::read_graph(options.file);
  std::vector<Way> ways = open_ways(options, g);
  if (ways.empty() || options.source >= g.vertices) {
    std::fprintf(stderr, "no such back end or source\n");
    return 2;
  }
  run_trials(program_of(options, g), options.trials, ways);
  bool right = true;
  for (const Way& way : ways) right = report(options, g, way) && right;
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: graph bfs|cc|sssp|pagerank|graph500 [--scale N] [--degree N] "
                 "[--kronecker] [--file PATH] [--cut edges|vertices] [--source V] [--rounds N] "
                 "[--roots N] [--trials N] [--together] [--backend lci|probe|rma[,...]] [--output "
                 "PREFIX]\n");
    return 2;
  }
#if MH_GRAPH_MPI
  const bool with_mpi = std::any_of(options.backends.begin(), options.backends.end(),
                                    [](const std::string& name) { return name != "lci"; });
  if (with_mpi) MPI_Init(&argc, &argv);
#endif
  int code = 1;
  try {
    code = live(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "graph: %s\n", error.what());
  }
#if MH_GRAPH_MPI
  if (with_mpi) MPI_Finalize();
#endif
  return code;
}
