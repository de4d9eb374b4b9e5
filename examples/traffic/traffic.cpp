// SPDX-License-Identifier: BSD-3-Clause
// Data traffic, after the DT benchmark of the NAS suite: arrays flow through a graph from sources
// to sinks. Each node of the graph is a light task. The task receives arrays from its predecessors,
// adds them, and sends the sum to its successors, all by blocking calls. Each edge has a tag.
//
//   mpiexec -n 2 ./traffic black-hole|white-hole|shuffle [WIDTH [NUMBERS]]
//
// Rank 0 compares the sum of the sinks with a serial run and prints the result. traffic_mpi.cpp is
// the same program over MPI.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>

#include "graph.hpp"
#include "manyhands/lci.hpp"
#include "manyhands/ult.hpp"

namespace {

namespace lci = mh::lci;
namespace ult = mh::ult;

using traffic::Array;
using traffic::Edge;
using traffic::owner;
using traffic::Traffic;

// The body of the light task of node `number`: receives, adds and sends arrays. Returns false if a
// rank has died.
bool live(const Traffic& graph, std::size_t number, lci::Communicator& all,
          std::atomic<std::uint64_t>& sum) {
  const traffic::Node& node = graph.nodes()[number];
  Array data = node.in.empty() ? graph.source(number) : Array(graph.numbers(), 0);
  Array came(graph.numbers());
  for (const Edge& edge : node.in) {
    const auto bytes = std::as_writable_bytes(std::span(came));
    if (!all.receive(owner(edge.node, all.size()), edge.tag, bytes)) return false;
    Traffic::add(data, came);
  }
  for (const Edge& edge : node.out) {
    const auto bytes = std::as_bytes(std::span(data));
    if (!all.send(owner(edge.node, all.size()), edge.tag, bytes)) return false;
  }
  // relaxed: tasks of all workers add the digests of the sinks' arrays. The sum is read after all
  // tasks have been joined.
  if (node.out.empty()) sum.fetch_add(Traffic::digest(data), std::memory_order_relaxed);
  return true;
}

bool flow(const Traffic& graph, ult::Scheduler& scheduler, lci::Communicator& all,
          std::uint64_t& mine) {
  std::atomic<bool> stop{false};
  auto server = scheduler.spawn([&] { lci::serve(all.device(), stop); });
  std::atomic<std::uint64_t> sum{0};
  std::atomic<bool> well{true};
  const auto ran = scheduler.run([&] {
    ult::Group nodes;
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
      if (owner(n, all.size()) != all.rank()) continue;
      nodes.spawn([&, n] {
        if (!live(graph, n, all, sum)) well = false;
      });
    }
    (void)nodes.wait();
  });
  stop = true;
  (void)server->join();
  mine = sum;
  return ran.ok() && well;
}

int fail(const char* what) {
  std::fprintf(stderr, "traffic: %s\n", what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = traffic::options_of(argc, argv);
  if (!options) return 2;
  const Traffic graph(options->pattern, options->width, options->numbers);
  auto job = lci::Job::join();
  if (!job) return fail("no job");
  auto device = lci::Device::open(*job);
  if (!device) return fail("no network");
  auto scheduler = ult::Scheduler::start({.workers = 1});
  if (!scheduler) return fail("no scheduler");
  auto all = lci::Communicator::open(*device);
  if (!all || !all->barrier()) return fail("no communicator");
  std::uint64_t sum = 0;
  const auto start = std::chrono::steady_clock::now();
  if (!flow(graph, *scheduler, *all, sum)) return fail("a rank has died");
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (!all->all_reduce(std::span(&sum, 1), std::plus<std::uint64_t>{})) return fail("a rank died");
  return traffic::report(*options, graph, all->size(), sum, spent.count(), all->rank() == 0);
}
