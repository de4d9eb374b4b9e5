// SPDX-License-Identifier: BSD-3-Clause
// The division of a graph over ranks. The *master* of a vertex, at one rank, has the canonical
// value; a rank's masters are a block of consecutive vertices. A copy of the vertex at another rank
// is a *mirror*.
//
// Edge cut: a rank has all edges out of its masters. Mirrors are only written, and their values go
// to the masters (*reduce*). Vertex cut (Cartesian): the ranks form a grid; the edge from u to v is
// in the row of u's master and in the column of v's master. A vertex's edges are then spread over a
// row of ranks, and the rank of the master first sends the value to these ranks (*broadcast*).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph.hpp"

namespace graph {

// The division of vertices: each rank has a block of consecutive vertices.
struct Blocks {
  Vertex vertices;
  int ranks;
  [[nodiscard]] Vertex first(int rank) const {
    return static_cast<Vertex>(std::uint64_t{vertices} * static_cast<unsigned>(rank) /
                               static_cast<unsigned>(ranks));
  }
  [[nodiscard]] int owner(Vertex v) const {
    int rank = static_cast<int>(std::uint64_t{v} * static_cast<unsigned>(ranks) / vertices);
    while (v < first(rank)) --rank;
    while (v >= first(rank + 1)) ++rank;
    return rank;
  }
};

enum class Cut : std::uint8_t { edges, vertices };

class Partition {
 public:
  Partition(const Graph& graph, Cut cut, int rank, int ranks)
      : blocks_{graph.vertices, ranks}, cut_(cut), rank_(rank) {
    // Chooses the grid of ranks that is closest to a square. The vertex cut assigns edges by its
    // rows and columns.
    for (int rows = 1; rows * rows <= ranks; ++rows) {
      if (ranks % rows == 0) columns_ = ranks / rows;
    }
    take_edges(graph);
    find_readers(graph);
  }

  [[nodiscard]] const Blocks& blocks() const { return blocks_; }
  [[nodiscard]] Vertex low() const { return blocks_.first(rank_); }
  [[nodiscard]] Vertex high() const { return blocks_.first(rank_ + 1); }
  [[nodiscard]] bool is_mine(Vertex v) const { return v >= low() && v < high(); }
  [[nodiscard]] int ranks() const { return blocks_.ranks; }
  [[nodiscard]] bool broadcasts() const { return cut_ == Cut::vertices; }
  // Returns this rank's part of the graph: all vertices, and those edges that place() gives to the
  // rank.
  [[nodiscard]] const Graph& edges() const { return mine_; }
  // Returns whether `rank` has edges out of `master`, one of this rank's own vertices. If so,
  // `rank` needs the value of `master` in a broadcast.
  [[nodiscard]] bool reads(int rank, Vertex master) const {
    return readers_[static_cast<std::size_t>(rank)][master - low()];
  }

  // Returns, for each destination rank, the most bytes that this rank can send to it in a reduce or
  // a broadcast, if an update has `bytes` bytes.
  [[nodiscard]] std::vector<std::size_t> most_to(std::size_t bytes) const {
    std::vector<std::size_t> reduced(static_cast<std::size_t>(ranks()), 0);
    std::vector<bool> seen(mine_.vertices, false);
    for (const Vertex v : mine_.neighbours) {
      if (seen[v] || is_mine(v)) continue;
      seen[v] = true;
      ++reduced[static_cast<std::size_t>(blocks_.owner(v))];
    }
    for (std::size_t to = 0; to < reduced.size(); ++to) {
      const auto& of = readers_[to];
      const auto read = static_cast<std::size_t>(std::count(of.begin(), of.end(), true));
      reduced[to] = std::max(reduced[to], read) * bytes;
    }
    return reduced;
  }

 private:
  // Returns the rank that has the edge from `u` to `v`.
  [[nodiscard]] int place(Vertex u, Vertex v) const {
    const int from = blocks_.owner(u);
    if (cut_ == Cut::edges) return from;
    return from / columns_ * columns_ + blocks_.owner(v) % columns_;
  }

  void take_edges(const Graph& graph) {
    mine_.vertices = graph.vertices;
    mine_.first.assign(graph.vertices + std::size_t{1}, 0);
    for (Vertex u = 0; u < graph.vertices; ++u) {
      for (auto i = graph.first[u]; i < graph.first[u + 1]; ++i) {
        if (place(u, graph.neighbours[i]) == rank_) mine_.neighbours.push_back(graph.neighbours[i]);
      }
      mine_.first[u + 1] = mine_.neighbours.size();
    }
  }

  void find_readers(const Graph& graph) {
    readers_.assign(static_cast<std::size_t>(ranks()), std::vector<bool>(high() - low(), false));
    if (!broadcasts()) return;
    for (Vertex u = low(); u < high(); ++u) {
      for (auto i = graph.first[u]; i < graph.first[u + 1]; ++i) {
        const int reader = place(u, graph.neighbours[i]);
        if (reader != rank_) readers_[static_cast<std::size_t>(reader)][u - low()] = true;
      }
    }
  }

  Blocks blocks_;
  Cut cut_;
  int rank_;
  int columns_ = 1;
  Graph mine_;
  std::vector<std::vector<bool>> readers_;  // by rank and master: the answers of reads()
};

}  // namespace graph
