// SPDX-License-Identifier: BSD-3-Clause
// Unbalanced Tree Search as a task collection. A task visits a node of the tree and adds a task for
// each child.
//
//   mpiexec -n 2 ./uts TREE BALANCER
//
// Prints nodes, leaves and depth, compared with the published numbers, then time and efficiency.
// Efficiency is the time in tasks of all ranks, divided by the number of ranks times the elapsed
// time. A search is a single iteration, so balancers that use the times of the previous iteration
// have no data.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "manyhands/tasks.hpp"
#include "tree.hpp"

namespace {

namespace tasks = mh::tasks;

struct Search {
  const uts::Tree* tree = nullptr;
  tasks::Collection* collection = nullptr;
  tasks::Function<uts::Node> function;
  std::uint64_t nodes = 0;
  std::uint64_t leaves = 0;
  std::uint32_t depth = 0;
};

void visit(tasks::Context& context, const uts::Node& node) noexcept {
  auto& search = context.local<Search>();
  ++search.nodes;
  search.depth = std::max(search.depth, node.depth);
  const std::uint32_t children = uts::children_of(*search.tree, node);
  if (children == 0) ++search.leaves;
  for (std::uint32_t i = 0; i < children; ++i) {
    const uts::Node child = uts::child_of(node, i);
    // Adds a task for the child. If the collection has no room for it, this task visits the child
    // itself.
    if (!search.collection->add(search.function, child)) visit(context, child);
  }
}

void report(const Search& search, const tasks::Statistics& statistics) {
  std::array<std::uint64_t, 3> counts{search.nodes, search.leaves, statistics.steals};
  std::array<double, 1> in_tasks{statistics.task_s};
  std::array<double, 2> longest{static_cast<double>(search.depth), statistics.process_s};
  MPI_Allreduce(MPI_IN_PLACE, counts.data(), 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, in_tasks.data(), 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, longest.data(), 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank != 0) return;
  const auto depth = static_cast<std::uint32_t>(longest[0]);
  std::printf("nodes %lu leaves %lu depth %u\n", counts[0], counts[1], depth);
  if (search.tree->nodes != 0) {
    const bool same = counts[0] == search.tree->nodes && depth == search.tree->max_depth;
    std::printf("%s\n", same ? "as published" : "NOT AS PUBLISHED");
  }
  std::printf("steals %lu time %.3f s efficiency %.1f %%\n", counts[2], longest[1],
              100 * in_tasks[0] / (longest[1] * ranks));
}

int run(const uts::Tree& tree, tasks::Balancer balancer) {
  Search search;
  search.tree = &tree;
  const tasks::Config config{
      .task_bytes = sizeof(uts::Node), .balancer = balancer, .local = &search};
  auto collection = tasks::create(MPI_COMM_WORLD, config);
  if (!collection) {
    std::fprintf(stderr, "uts: %s\n", mh::describe(collection.status().code));
    return 1;
  }
  const auto function = collection->define<uts::Node>(visit);
  if (!function) return 1;
  search.collection = &*collection;
  search.function = *function;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && !collection->add(search.function, uts::root_of(tree))) return 1;
  if (!collection->process()) return 1;
  report(search, collection->statistics());
  return 0;
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const uts::Tree* tree = count == 3 ? uts::find_tree(words[1]) : nullptr;
  const auto balancer = tasks::balancer_of(count == 3 ? words[2] : "");
  int code = 2;
  if (tree != nullptr && balancer) {
    code = run(*tree, *balancer);
  } else if (rank == 0) {
    std::fprintf(stderr,
                 "usage: uts T1|T2|T3|T5|T1L|T3L|T1XL|small-geometric|small-binomial BALANCER\n"
                 "BALANCER: none, steal, retain, plb-central, plb-tree or auto\n");
  }
  MPI_Finalize();
  return code;
}
