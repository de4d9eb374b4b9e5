// SPDX-License-Identifier: BSD-3-Clause
// The graphs of the data traffic example, after the DT benchmark of the NAS suite, and a serial run
// of each graph. Arrays flow from sources (nodes without predecessors) to sinks (without
// successors).
//
//  black-hole: WIDTH sources, a tree of degree four, a single sink
//  white-hole: a single source, a tree of degree four, WIDTH sinks
//  shuffle: WIDTH sources, log2(WIDTH) layers of a butterfly, WIDTH sinks
// WIDTH is a power of two.
//
// Node i runs on rank i modulo the number of ranks.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace traffic {

using Array = std::vector<std::uint64_t>;

struct Edge {
  std::size_t node;  // number of the node at the other end
  std::uint32_t tag;
};

struct Node {
  std::vector<Edge> in;
  std::vector<Edge> out;
};

// The graph of a pattern (black-hole, white-hole, shuffle). In nodes(), each node stands after its
// predecessors.
class Traffic {
 public:
  Traffic(const std::string& pattern, std::size_t width, std::size_t numbers) : numbers_(numbers) {
    if (pattern == "black-hole") {
      join_by_four(layer(width));
    } else if (pattern == "white-hole") {
      join_by_four(layer(width));
      turn_around();
    } else {
      shuffle(width);
    }
  }

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] std::size_t numbers() const { return numbers_; }

  [[nodiscard]] Array source(std::size_t node) const {
    Array data(numbers_);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = (node + 1) * 0x9E3779B97F4A7C15U + i;
    return data;
  }
  static std::uint64_t digest(const Array& data) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < data.size(); ++i) sum += data[i] * (2 * i + 1);
    return sum;
  }

  // Runs the graph serially, for the check. Returns the sum of the digests of all sinks' arrays.
  [[nodiscard]] std::uint64_t serial() const {
    std::vector<Array> data(nodes_.size());
    std::uint64_t sum = 0;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      data[n] = nodes_[n].in.empty() ? source(n) : Array(numbers_, 0);
      for (const Edge& edge : nodes_[n].in) add(data[n], data[edge.node]);
      if (nodes_[n].out.empty()) sum += digest(data[n]);
    }
    return sum;
  }
  static void add(Array& to, const Array& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }

 private:
  std::vector<std::size_t> layer(std::size_t width) {
    std::vector<std::size_t> made;
    for (std::size_t i = 0; i < width; ++i) {
      made.push_back(nodes_.size());
      nodes_.emplace_back();
    }
    return made;
  }
  void connect(std::size_t from, std::size_t to) {
    nodes_[from].out.push_back({to, tags_});
    nodes_[to].in.push_back({from, tags_++});
  }
  void join_by_four(std::vector<std::size_t> from) {
    while (from.size() > 1) {
      const auto to = layer((from.size() + 3) / 4);
      for (std::size_t i = 0; i < from.size(); ++i) connect(from[i], to[i / 4]);
      from = to;
    }
  }
  void shuffle(std::size_t width) {
    auto from = layer(width);
    for (std::size_t bit = 1; bit < width; bit *= 2) {
      const auto to = layer(width);
      for (std::size_t i = 0; i < width; ++i) {
        connect(from[i], to[i]);
        connect(from[i], to[i ^ bit]);
      }
      from = to;
    }
  }
  void turn_around() {
    const std::size_t last = nodes_.size() - 1;
    std::vector<Node> turned(nodes_.size());
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      turned[last - n] = {std::move(nodes_[n].out), std::move(nodes_[n].in)};
    }
    nodes_ = std::move(turned);
    for (Node& node : nodes_) {
      for (auto* edges : {&node.in, &node.out}) {
        for (Edge& edge : *edges) edge.node = last - edge.node;
      }
    }
  }

  std::size_t numbers_;
  std::vector<Node> nodes_;
  std::uint32_t tags_ = 0;
};

inline int owner(std::size_t node, int ranks) {
  return static_cast<int>(node % static_cast<unsigned>(ranks));
}

struct Options {
  std::string pattern;
  std::size_t width = 16;
  std::size_t numbers = 4096;  // length of each array
};

// Parses the command line. If an argument is wrong, prints the usage to standard error and returns
// nothing.
inline std::optional<Options> options_of(int count, char** words) {
  Options read;
  if (count > 1) read.pattern = words[1];
  if (count > 2) read.width = static_cast<std::size_t>(std::atoll(words[2]));
  if (count > 3) read.numbers = static_cast<std::size_t>(std::atoll(words[3]));
  const std::string& pattern = read.pattern;
  const bool known = pattern == "black-hole" || pattern == "white-hole" || pattern == "shuffle";
  if (known && count <= 4 && std::has_single_bit(read.width) && read.numbers != 0) return read;
  std::fprintf(stderr, "usage: traffic black-hole|white-hole|shuffle [WIDTH [NUMBERS]]\n");
  return std::nullopt;
}

// Prints whether the sum of the sinks equals the sum of the serial run. Returns the exit status of
// the program.
inline int report(const Options& of, const Traffic& traffic, int ranks, std::uint64_t sum,
                  double seconds, bool prints) {
  const bool right = sum == traffic.serial();
  if (prints) {
    std::printf("%s %zu wide, %zu nodes, %zu numbers, %d ranks: %s, %.3f ms\n", of.pattern.c_str(),
                of.width, traffic.nodes().size(), of.numbers, ranks, right ? "right" : "WRONG",
                1e3 * seconds);
  }
  return right ? 0 : 1;
}

}  // namespace traffic
