// SPDX-License-Identifier: BSD-3-Clause
// The search of Graph500, which makes a tree of parents from a root, level by level, and the five
// checks of Graph500's specification, which need no reference search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "exchange.hpp"
#include "graph.hpp"
#include "partition.hpp"
#include "programs.hpp"

namespace graph {

inline constexpr Vertex kNobody = ~Vertex{0};

struct Tree {
  Vertex root;
  std::vector<Vertex> parent;        // kNobody: not reached; the root is its own parent
  std::vector<std::uint32_t> level;  // kFar: not reached
};

// --- breadth-first search for a tree of parents -------------------------------------------------

class TreeSearch {
 public:
  TreeSearch(const Partition& partition, Exchange& exchange)
      : partition_(partition), exchange_(exchange) {
    exchange.prepare(partition.most_to(sizeof(Update<Vertex>)));
  }

  // Collective. Searches from `root`. Returns the tree, in which a rank's entries for its own
  // vertices (masters, partition.hpp) are complete.
  Tree run(Vertex root) {
    const Vertex vertices = partition_.edges().vertices;
    tree_ = {root, std::vector<Vertex>(vertices, kNobody),
             std::vector<std::uint32_t>(vertices, kFar)};
    active_.clear();
    if (partition_.is_mine(root)) reach(root, root, 0);
    active_.swap(next_);
    for (std::uint32_t level = 1; exchange_.sum(static_cast<std::int64_t>(active_.size())) != 0;
         ++level) {
      find_next(level);
    }
    return std::move(tree_);
  }

 private:
  void reach(Vertex v, Vertex from, std::uint32_t level) {
    if (tree_.parent[v] != kNobody) return;
    tree_.parent[v] = from;
    tree_.level[v] = level;
    (partition_.is_mine(v) ? next_ : proposed_).push_back(v);
  }

  void find_next(std::uint32_t level) {
    if (partition_.broadcasts()) {
      broadcast(partition_, std::vector<Vertex>(active_), tree_.parent, exchange_,
                [this](const Update<Vertex>& u) { active_.push_back(u.vertex); });
    }
    const Graph& graph = partition_.edges();
    for (const Vertex u : active_) {
      for (auto i = graph.first[u]; i < graph.first[u + 1]; ++i) {
        reach(graph.neighbours[i], u, level);
      }
    }
    // A rank sends a proposal, a parent for a vertex of another rank, only once for each vertex.
    // After this round that rank has a parent for the vertex, so another proposal would be of no
    // use.
    std::vector<Buffer> out(static_cast<std::size_t>(partition_.ranks()));
    for (const Vertex v : proposed_) {
      append(out[static_cast<std::size_t>(partition_.blocks().owner(v))],
             Update<Vertex>{v, tree_.parent[v]});
    }
    proposed_.clear();
    exchange_.round(out, [&](int /*from*/, std::span<const std::byte> data) {
      for_each_update<Vertex>(data, [&](const auto& u) { reach(u.vertex, u.value, level); });
    });
    active_.swap(next_);
    next_.clear();
  }

  const Partition& partition_;
  Exchange& exchange_;
  Tree tree_{};
  std::vector<Vertex> active_;
  std::vector<Vertex> next_;
  std::vector<Vertex> proposed_;
};

// --- the roots of searches, and the edges by which their rate is computed -----------------------

// Returns the number of edges between the vertices of the tree. Each edge counts once, although it
// is stored at both of its ends.
inline std::uint64_t edges_of(const Graph& g, const Tree& tree) {
  std::uint64_t ends = 0;
  for (Vertex v = 0; v < g.vertices; ++v) {
    if (tree.parent[v] != kNobody) ends += g.degree(v);
  }
  return ends / 2;
}

// Returns random vertices that have edges, as roots of searches. All ranks get the same.
inline std::vector<Vertex> draw_roots(const Graph& g, int count) {
  std::vector<Vertex> roots;
  Random random(500);
  for (int tries = 0; tries < 1000 * count && static_cast<int>(roots.size()) < count; ++tries) {
    const auto v = static_cast<Vertex>(random.next() % g.vertices);
    if (g.degree(v) != 0) roots.push_back(v);
  }
  if (roots.empty()) throw std::runtime_error("no vertex has an edge");
  return roots;
}

// --- the five checks of a tree ------------------------------------------------------------------

inline constexpr int kTreeChecks = 5;
inline constexpr const char* kTreeCheckNames[kTreeChecks] = {
    "parents lead to the root, without a cycle", "a child is one level below its parent",
    "an edge leads to the same or to a neighbouring level",
    "the tree has the whole component of its root", "a child and its parent have an edge"};

struct Violations {
  std::uint64_t of[kTreeChecks] = {};
  [[nodiscard]] std::uint64_t all() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : of) sum += count;
    return sum;
  }
};

inline bool has_edge(const Graph& graph, Vertex u, Vertex v) {
  const auto begin = graph.neighbours.begin() + static_cast<std::ptrdiff_t>(graph.first[u]);
  const auto end = graph.neighbours.begin() + static_cast<std::ptrdiff_t>(graph.first[u + 1]);
  return std::binary_search(begin, end, v);
}

// Returns for each vertex whether its chain of parents ends at the root. Visits each vertex once.
inline std::vector<bool> lead_to_root(const Tree& tree) {
  enum class State : std::uint8_t { unknown, walked, good, bad };
  std::vector<State> state(tree.parent.size(), State::unknown);
  if (tree.parent[tree.root] == tree.root) state[tree.root] = State::good;
  std::vector<Vertex> path;
  for (Vertex start = 0; start < tree.parent.size(); ++start) {
    Vertex v = start;
    while (v < state.size() && state[v] == State::unknown) {
      state[v] = State::walked;
      path.push_back(v);
      v = tree.parent[v];
    }
    // The chain of parents from `start` ends in three ways: at kNobody, in a cycle, or at a vertex
    // whose state is known from an earlier chain.
    const bool good = v < state.size() && state[v] == State::good;
    for (const Vertex w : path) state[w] = good ? State::good : State::bad;
    path.clear();
  }
  std::vector<bool> leads(state.size());
  for (std::size_t v = 0; v < state.size(); ++v) leads[v] = state[v] == State::good;
  return leads;
}

// Carries out the five checks for the vertices from `low` to below `high`. The tree must have the
// parents and levels of all vertices, also of those of other ranks.
inline Violations violations(const Graph& graph, const Tree& tree, Vertex low, Vertex high) {
  Violations found;
  const std::vector<bool> leads = lead_to_root(tree);
  if (!leads[tree.root] || tree.level[tree.root] != 0) ++found.of[0];
  for (Vertex v = low; v < high; ++v) {
    const Vertex parent = tree.parent[v];
    const bool reached = parent != kNobody;
    if (reached && !leads[v]) ++found.of[0];
    if (reached && v != tree.root) {
      const bool exists = parent < graph.vertices;
      if (!exists || tree.level[v] != tree.level[parent] + 1) ++found.of[1];
      if (!exists || !has_edge(graph, v, parent)) ++found.of[4];
    }
    for (auto i = graph.first[v]; i < graph.first[v + 1]; ++i) {
      const Vertex w = graph.neighbours[i];
      const bool there = tree.parent[w] != kNobody;
      if (there != reached) ++found.of[3];
      if (!there || !reached) continue;
      const auto [nearer, farther] = std::minmax(tree.level[v], tree.level[w]);
      if (farther - nearer > 1) ++found.of[2];
    }
  }
  return found;
}

// --- collects the tree on every rank ------------------------------------------------------------

// Collective. Makes the tree complete on every rank: each rank sends the parents and levels of its
// own vertices (masters) to all ranks.
inline void complete(const Partition& partition, Exchange& exchange, Tree& tree) {
  using Item = Update<std::uint64_t>;  // value: parent and level
  const std::size_t bytes = (partition.high() - partition.low()) * sizeof(Item);
  exchange.prepare(std::vector<std::size_t>(static_cast<std::size_t>(exchange.size()), bytes));
  Buffer mine;
  for (Vertex v = partition.low(); v < partition.high(); ++v) {
    append(mine, Item{v, std::uint64_t{tree.parent[v]} << 32U | tree.level[v]});
  }
  const std::vector<Buffer> out(static_cast<std::size_t>(exchange.size()), mine);
  exchange.round(out, [&](int /*from*/, std::span<const std::byte> data) {
    for_each_update<std::uint64_t>(data, [&](const auto& u) {
      tree.parent[u.vertex] = static_cast<Vertex>(u.value >> 32U);
      tree.level[u.vertex] = static_cast<std::uint32_t>(u.value);
    });
  });
}

}  // namespace graph
