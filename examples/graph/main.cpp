// SPDX-License-Identifier: BSD-3-Clause
// Distributed graph programs, over LCI or (built with MH_GRAPH_MPI) over MPI.
//
//   graph PROGRAM [--scale N] [--degree N] [--kronecker] [--file PATH] [--cut edges|vertices]
//         [--source V] [--rounds N] [--roots N] [--trials N] [--together]
//         [--backend lci|probe|rma] [--output PREFIX]
//
// PROGRAM: bfs, cc, sssp, pagerank: every rank checks its own vertices against a serial run.
// graph500: searches from --roots roots, whose trees are checked as Graph500 says. Rank 0 prints
// what was run, whether it is right, and the time in rounds of the rank that spent most in each,
// median of --trials; with --together all begin each round together, so that nobody waits there for
// others to compute. Then for each host the bytes of communication buffers. With --output each rank
// writes "VERTEX VALUE" of its vertices to PREFIX.RANK.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iomanip>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>

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
  std::string backend = "lci";
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

// False: the text is not a number, or not one from `least` to `most`.
template <class Number>
bool read(const char* text, Number& number, Number least, Number most) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc{} && stop == end && number >= least && number <= most;
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
  if (word == "--backend") options.backend = value;
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

// --- programs that are checked against a serial run --------------------------------------------

struct Run {
  const Options& options;
  const Graph& graph;
  const graph::Partition& partition;
  Exchange& exchange;
};

// Of the vertices of this rank, those whose value differs from the serial one.
template <class Value, class Same>
std::int64_t finish(const Run& run, const std::vector<Value>& mine, const std::vector<Value>& all,
                    Same same) {
  const graph::Vertex low = run.partition.low();
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < mine.size(); ++i) wrong += same(mine[i], all[low + i]) ? 0 : 1;
  if (run.options.output.empty()) return wrong;
  std::ofstream file(run.options.output + '.' + std::to_string(run.exchange.rank()));
  file << std::setprecision(17);
  for (std::size_t i = 0; i < mine.size(); ++i) file << low + i << ' ' << mine[i] << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + run.options.output);
  return wrong;
}

template <class Program>
std::int64_t minimum(const Run& run) {
  const graph::Vertex source = run.options.source;
  const auto mine = graph::Minimum<Program>(run.partition, source, run.exchange).run();
  const auto all = graph::serial_minimum<Program>(run.graph, source);
  return finish(run, mine, all, std::equal_to<>{});
}

std::int64_t pagerank(const Run& run) {
  const int rounds = run.options.rounds;
  const auto mine = graph::run_pagerank(run.graph, run.partition, rounds, run.exchange);
  // Sums are added in another order.
  return finish(run, mine, graph::serial_pagerank(run.graph, rounds),
                [](double a, double b) { return std::abs(a - b) <= 1e-12 + 1e-9 * b; });
}

// --- Graph500 -----------------------------------------------------------------------------------

// Of the component of the tree's root, on both sides counted once.
std::uint64_t edges_of(const Graph& g, const graph::Tree& tree) {
  std::uint64_t ends = 0;
  for (graph::Vertex v = 0; v < g.vertices; ++v) {
    if (tree.parent[v] != graph::kNobody) ends += g.degree(v);
  }
  return ends / 2;
}

// Vertices with edges, the same at all ranks.
std::vector<graph::Vertex> draw_roots(const Graph& g, int count) {
  std::vector<graph::Vertex> roots;
  graph::Random random(500);
  for (int tries = 0; tries < 1000 * count && static_cast<int>(roots.size()) < count; ++tries) {
    const auto v = static_cast<graph::Vertex>(random.next() % g.vertices);
    if (g.degree(v) != 0) roots.push_back(v);
  }
  if (roots.empty()) throw std::runtime_error("no vertex has an edge");
  return roots;
}

// Prints a line for each check that does not hold.
std::int64_t check_tree(const Run& run, graph::Tree& tree) {
  graph::complete(run.partition, run.exchange, tree);
  const auto found = graph::violations(run.graph, tree, run.partition.low(), run.partition.high());
  for (int check = 0; check < graph::kTreeChecks; ++check) {
    if (found.of[check] == 0) continue;
    std::fprintf(stderr, "rank %d, root %u: %llu times not so: %s\n", run.exchange.rank(),
                 tree.root, static_cast<unsigned long long>(found.of[check]),
                 graph::kTreeCheckNames[check]);
  }
  return static_cast<std::int64_t>(found.all());
}

// Of this rank, all trials together.
struct Account {
  std::vector<double> seconds;  // of each round
  std::size_t memory = 0;
  std::size_t bytes = 0;  // sent
};

Account account_of(const Exchange& exchange) {
  return {exchange.seconds(), exchange.memory(), exchange.bytes()};
}

// Rates count edges of the graph without loops and repeated edges.
std::int64_t graph500(const Run& run, Account& account) {
  graph::TreeSearch search(run.partition, run.exchange);
  std::vector<graph::Tree> trees;
  std::vector<double> spent;
  for (const graph::Vertex root : draw_roots(run.graph, run.options.roots)) {
    (void)run.exchange.sum(0);
    const auto start = std::chrono::steady_clock::now();
    trees.push_back(search.run(root));
    spent.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  account = account_of(run.exchange);
  std::int64_t wrong = 0;
  double seconds_an_edge = 0;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    wrong += check_tree(run, trees[i]);
    seconds_an_edge += spent[i] / static_cast<double>(edges_of(run.graph, trees[i]));
  }
  if (run.exchange.rank() == 0) {
    std::printf("%zu searches, %.0f edges/s (harmonic mean)\n", trees.size(),
                static_cast<double>(trees.size()) / seconds_an_edge);
  }
  return wrong;
}

// --- all programs -------------------------------------------------------------------------------

std::int64_t try_program(const Run& run, Account& account) {
  const std::string& name = run.options.program;
  if (name == "graph500") return graph500(run, account);
  std::int64_t wrong = 0;
  if (name == "bfs") {
    wrong = minimum<graph::Bfs>(run);
  } else if (name == "sssp") {
    wrong = minimum<graph::Sssp>(run);
  } else if (name == "cc") {
    wrong = minimum<graph::Components>(run);
  } else if (name == "pagerank") {
    wrong = pagerank(run);
  } else {
    throw std::runtime_error("no program " + name);
  }
  account = account_of(run.exchange);
  return wrong;
}

std::int64_t run_program(const Run& run, Account& account) {
  std::int64_t wrong = 0;
  for (int i = 0; i < run.options.trials; ++i) wrong += try_program(run, account);
  return wrong;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Seconds in all rounds: in each, of the rank that spent most there, the median trial. Every trial
// has as many rounds.
double seconds_in_rounds(const Account& mine, std::size_t trials, Exchange& exchange) {
  const std::size_t rounds = mine.seconds.size() / trials;
  double all = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<double> of_trials;
    for (std::size_t trial = 0; trial < trials; ++trial) {
      const double seconds = mine.seconds[trial * rounds + round];
      of_trials.push_back(1e-9 * static_cast<double>(exchange.most(std::llround(1e9 * seconds))));
    }
    all += median(of_trials);
  }
  return all;
}

struct Host {
  int ranks = 0;
  std::size_t memory = 0;
};

int report(const Run& run) {
  Account account;
  const std::int64_t wrong = run.exchange.sum(run_program(run, account));
  char name[128] = "";
  if (::gethostname(name, sizeof name - 1) != 0) std::strcpy(name, "?");
  std::ostringstream mine;
  mine << name << ' ' << account.memory;
  const auto trials = static_cast<std::size_t>(run.options.trials);
  const double seconds = seconds_in_rounds(account, trials, run.exchange);
  std::map<std::string, Host> hosts;
  for (const std::string& text : run.exchange.all(mine.str())) {
    std::istringstream words(text);
    std::string host;
    std::size_t memory = 0;
    words >> host >> memory;
    ++hosts[host].ranks;
    hosts[host].memory += memory;
  }
  if (run.exchange.rank() == 0) {
    std::printf(
        "%s %s %d ranks, %s cut, %u vertices, %zu edges: %s, %.3f ms in rounds; %zu rounds, "
        "%zu bytes sent\n",
        run.options.program.c_str(), run.options.backend.c_str(), run.exchange.size(),
        run.options.cut.c_str(), run.graph.vertices, run.graph.neighbours.size(),
        wrong == 0 ? "right" : "WRONG", 1e3 * seconds, account.seconds.size() / trials,
        account.bytes / trials);
    for (const auto& [host, has] : hosts) {
      std::printf("host %s: %d ranks, %zu bytes of communication buffers\n", host.c_str(),
                  has.ranks, has.memory);
    }
  }
  return wrong == 0 ? 0 : 1;
}

int live(const Options& options) {
  const Graph g = options.file.empty()
                      ? graph::recursive(options.scale, options.degree,
                                         options.kronecker ? graph::kKronecker : graph::kRmat, 1)
                      : graph::read_graph(options.file);
  const auto exchange = open_backend(options.backend);
  if (exchange == nullptr || options.source >= g.vertices) {
    std::fprintf(stderr, "no such back end or source\n");
    return 2;
  }
  const graph::Partition partition(
      g, options.cut == "edges" ? graph::Cut::edges : graph::Cut::vertices, exchange->rank(),
      exchange->size());
  if (options.together) exchange->begin_together();
  return report({options, g, partition, *exchange});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(
        stderr,
        "usage: graph bfs|cc|sssp|pagerank|graph500 [--scale N] [--degree N] "
        "[--kronecker] [--file PATH] [--cut edges|vertices] [--source V] [--rounds N] "
        "[--roots N] [--trials N] [--together] [--backend lci|probe|rma] [--output PREFIX]\n");
    return 2;
  }
#if MH_GRAPH_MPI
  if (options.backend != "lci") MPI_Init(&argc, &argv);
#endif
  int code = 1;
  try {
    code = live(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "graph: %s\n", error.what());
  }
#if MH_GRAPH_MPI
  if (options.backend != "lci") MPI_Finalize();
#endif
  return code;
}
