// SPDX-License-Identifier: BSD-3-Clause
// Unbalanced Tree Search with oneTBB, on the threads of one process, for comparison.
//
//   ./uts-tbb TREE THREADS
#include <oneapi/tbb/combinable.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tree.hpp"

namespace {

struct Counts {
  std::uint64_t nodes = 0;
  std::uint64_t leaves = 0;
  std::uint32_t depth = 0;
};

class Search {
 public:
  explicit Search(const uts::Tree& tree) : tree_(tree) {}
  void run() {
    visit(uts::root_of(tree_));
    group_.wait();
  }
  Counts counts() {
    Counts all;
    counts_.combine_each([&all](const Counts& one) {
      all.nodes += one.nodes;
      all.leaves += one.leaves;
      all.depth = std::max(all.depth, one.depth);
    });
    return all;
  }

 private:
  void visit(const uts::Node& node) {
    Counts& counts = counts_.local();
    ++counts.nodes;
    counts.depth = std::max(counts.depth, node.depth);
    const std::uint32_t children = uts::children_of(tree_, node);
    if (children == 0) ++counts.leaves;
    for (std::uint32_t i = 0; i < children; ++i) {
      group_.run([this, child = uts::child_of(node, i)] { visit(child); });
    }
  }

  const uts::Tree& tree_;
  oneapi::tbb::task_group group_;
  oneapi::tbb::combinable<Counts> counts_;
};

}  // namespace

int main(int count, char** words) {
  const uts::Tree* tree = count == 3 ? uts::find_tree(words[1]) : nullptr;
  const unsigned long threads = count == 3 ? std::strtoul(words[2], nullptr, 10) : 0;
  if (tree == nullptr || threads == 0) {
    std::fprintf(stderr, "usage: uts-tbb TREE THREADS\n");
    return 2;
  }
  const oneapi::tbb::global_control control(oneapi::tbb::global_control::max_allowed_parallelism,
                                            threads);
  Search search(*tree);
  const auto start = std::chrono::steady_clock::now();
  search.run();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  const Counts counts = search.counts();
  std::printf("nodes %lu leaves %lu depth %u\ntime %.3f s\n", counts.nodes, counts.leaves,
              counts.depth, time.count());
  return 0;
}
