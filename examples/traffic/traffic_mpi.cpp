// SPDX-License-Identifier: BSD-3-Clause
// Data traffic over MPI, for comparison with traffic.cpp. Each rank runs its nodes in the order of
// the graph, receives by MPI_Recv and sends by MPI_Isend.
//
//   mpiexec -n 2 ./traffic-mpi black-hole|white-hole|shuffle [WIDTH [NUMBERS]]
//
// The nodes of a rank run one after the other, because no node needs an array of a later node.
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <vector>

#include "graph.hpp"

namespace {

using traffic::Array;
using traffic::Edge;
using traffic::owner;
using traffic::Traffic;

int ranks_of_world() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

int rank_in_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

// The sends of this rank that are not yet complete, and their arrays, which must stay unchanged
// until then.
struct Sends {
  std::list<Array> arrays;
  std::vector<MPI_Request> requests;
};

void send(const Traffic& graph, const traffic::Node& node, Array data, Sends& sends) {
  const Array& kept = sends.arrays.emplace_back(std::move(data));
  for (const Edge& edge : node.out) {
    MPI_Isend(kept.data(), static_cast<int>(graph.numbers()), MPI_UINT64_T,
              owner(edge.node, ranks_of_world()), static_cast<int>(edge.tag), MPI_COMM_WORLD,
              &sends.requests.emplace_back());
  }
}

Array inputs(const Traffic& graph, const traffic::Node& node, std::size_t number) {
  if (node.in.empty()) return graph.source(number);
  Array data(graph.numbers(), 0);
  Array came(graph.numbers());
  for (const Edge& edge : node.in) {
    MPI_Recv(came.data(), static_cast<int>(came.size()), MPI_UINT64_T,
             owner(edge.node, ranks_of_world()), static_cast<int>(edge.tag), MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    Traffic::add(data, came);
  }
  return data;
}

// Runs the nodes of this rank one after the other. Returns the sum of the digests of its sinks'
// arrays.
std::uint64_t flow(const Traffic& graph) {
  Sends sends;
  std::uint64_t sum = 0;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (owner(n, ranks_of_world()) != rank_in_world()) continue;
    const traffic::Node& node = graph.nodes()[n];
    Array data = inputs(graph, node, n);
    if (node.out.empty()) sum += Traffic::digest(data);
    send(graph, node, std::move(data), sends);
  }
  MPI_Waitall(static_cast<int>(sends.requests.size()), sends.requests.data(), MPI_STATUSES_IGNORE);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto options = traffic::options_of(argc, argv);
  if (!options) {
    MPI_Finalize();
    return 2;
  }
  const Traffic graph(options->pattern, options->width, options->numbers);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t sum = flow(graph);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  const int code =
      traffic::report(*options, graph, ranks_of_world(), sum, spent.count(), rank_in_world() == 0);
  MPI_Finalize();
  return code;
}
