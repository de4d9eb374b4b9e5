// SPDX-License-Identifier: BSD-3-Clause
// Writes a tree for the simulator (bench/tasks/validate.py): the seconds of each node (32-bit
// floats), and the number of each node's first child (32 bits). The second file ends with the
// number of nodes.
//
//   uts_tree TREE SECONDS_FILE CHILDREN_FILE
//
// Nodes are numbered level by level, so the children of a node are consecutive. The time of a node
// is the mean over the nodes with the same number of children, because reading a clock takes a
// tenth of a node's time. The program has one thread.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "tree.hpp"

namespace {

struct Times {
  double seconds = 0;
  std::uint64_t nodes = 0;
};

template <class Number>
bool write(const char* path, const std::vector<Number>& numbers) {
  std::FILE* file = std::fopen(path, "wb");
  if (file == nullptr) return false;
  const bool whole =
      std::fwrite(numbers.data(), sizeof(Number), numbers.size(), file) == numbers.size();
  return std::fclose(file) == 0 && whole;
}

}  // namespace

int main(int count, char** words) {
  const uts::Tree* tree = count == 4 ? uts::find_tree(words[1]) : nullptr;
  if (tree == nullptr) return 2;
  using Clock = std::chrono::steady_clock;
  std::vector<uts::Node> level{uts::root_of(*tree)};
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> children;
  std::map<std::uint32_t, Times> times;
  std::uint32_t next = 1;
  while (!level.empty()) {
    std::vector<uts::Node> below;
    for (const uts::Node& node : level) {
      const auto start = Clock::now();
      const std::uint32_t many = uts::children_of(*tree, node);
      for (std::uint32_t i = 0; i < many; ++i) below.push_back(uts::child_of(node, i));
      Times& same = times[many];
      same.seconds += std::chrono::duration<double>(Clock::now() - start).count();
      ++same.nodes;
      first.push_back(next);
      children.push_back(many);
      next += many;
    }
    level = std::move(below);
  }
  first.push_back(next);
  std::vector<float> seconds;
  for (const std::uint32_t many : children) {
    const Times& same = times[many];
    seconds.push_back(static_cast<float>(same.seconds / static_cast<double>(same.nodes)));
  }
  return write(words[2], seconds) && write(words[3], first) ? 0 : 1;
}
