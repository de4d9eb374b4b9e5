// SPDX-License-Identifier: BSD-3-Clause
// Distributed graph programs, over LCI or (built with MH_GRAPH_MPI) over MPI.
//
//   graph PROGRAM [--scale N] [--degree N] [--kronecker] [--file PATH] [--source V] [--rounds N]
//         [--backend lci|probe|rma]
//
// PROGRAM: bfs, cc, sssp, pagerank. Every rank checks its own vertices against a serial run; rank 0
// prints one line: what was run, whether it is right, the longest time in rounds, the most memory
// of receive buffers of any rank.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <system_error>

#include "lci_exchange.hpp"
#include "programs.hpp"
#if MH_GRAPH_MPI
#include "mpi_exchange.hpp"
#endif

namespace {

using graph::Exchange;
using graph::Graph;

struct Options {
  std::string program = "bfs";
  std::string backend = "lci";
  std::string file;
  unsigned scale = 12;
  unsigned degree = 16;
  bool kronecker = false;
  graph::Vertex source = 0;
  int rounds = 20;
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
  if (word == "--file") options.file = value;
  if (word == "--backend") options.backend = value;
  return word == "--file" || word == "--backend";
}

bool parse(int argc, char** argv, Options& options) {
  if (argc < 2) return false;
  options.program = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--kronecker") {
      options.kronecker = true;
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
  return nullptr;
}

// Of the vertices of this rank, those whose value differs from the serial one.
template <class Value, class Same>
std::int64_t count_wrong(const std::vector<Value>& mine, const std::vector<Value>& all,
                         graph::Vertex low, Same same) {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < mine.size(); ++i) wrong += same(mine[i], all[low + i]) ? 0 : 1;
  return wrong;
}

template <class Program>
std::int64_t minimum(const Graph& g, graph::Vertex source, graph::Vertex low, Exchange& exchange) {
  const auto mine = graph::run_minimum<Program>(g, source, exchange);
  return count_wrong(mine, graph::serial_minimum<Program>(g, source), low, std::equal_to<>{});
}

std::int64_t run(const Options& options, const Graph& g, Exchange& exchange) {
  const graph::Vertex low = graph::Blocks{g.vertices, exchange.size()}.first(exchange.rank());
  if (options.program == "bfs") return minimum<graph::Bfs>(g, options.source, low, exchange);
  if (options.program == "sssp") return minimum<graph::Sssp>(g, options.source, low, exchange);
  if (options.program == "cc") return minimum<graph::Components>(g, 0, low, exchange);
  if (options.program != "pagerank") throw std::runtime_error("no program " + options.program);
  const auto mine = graph::run_pagerank(g, options.rounds, exchange);
  // Sums are added in another order.
  return count_wrong(mine, graph::serial_pagerank(g, options.rounds), low,
                     [](double a, double b) { return std::abs(a - b) <= 1e-12 + 1e-9 * b; });
}

int report(const Options& options, const Graph& g, Exchange& exchange) {
  const std::int64_t wrong = exchange.sum(run(options, g, exchange));
  if (exchange.rank() == 0) {
    std::printf(
        "%s %s %d ranks, %u vertices, %zu edges: %s, %.3f ms in rounds, %zu bytes of "
        "receive buffers\n",
        options.program.c_str(), options.backend.c_str(), exchange.size(), g.vertices,
        g.neighbours.size(), wrong == 0 ? "right" : "WRONG", 1e3 * exchange.seconds(),
        exchange.receive_memory());
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
  return report(options, g, *exchange);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: graph bfs|cc|sssp|pagerank [--scale N] [--degree N] "
                 "[--kronecker] [--file PATH] [--source V] [--rounds N] "
                 "[--backend lci|probe|rma]\n");
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
