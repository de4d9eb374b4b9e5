// SPDX-License-Identifier: BSD-3-Clause
// Breadth-first search, connected components, shortest paths, page rank: as vertex programs on a
// graph that is cut along its edges, and serially to check them.
//
// Each rank owns a block of consecutive vertices (*masters*) with all their edges. What it computes
// for a vertex of another rank it keeps in a *mirror*; after each round the mirrors that changed
// are gathered, sent, and reduced into their masters.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "exchange.hpp"
#include "graph.hpp"

namespace graph {

// Consecutive vertices for each rank.
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

template <class Value>
struct Update {
  Vertex vertex;
  Value value;
};

template <class Value>
void append(Buffer& buffer, Update<Value> update) {
  const std::size_t at = buffer.size();
  buffer.resize(at + sizeof update);
  std::memcpy(buffer.data() + at, &update, sizeof update);
}

template <class Value, class Use>
void for_each_update(std::span<const std::byte> data, Use use) {
  for (; data.size() >= sizeof(Update<Value>); data = data.subspan(sizeof(Update<Value>))) {
    Update<Value> update;
    std::memcpy(&update, data.data(), sizeof update);
    use(update);
  }
}

// --- programs that look for a minimum -----------------------------------------------------------

inline constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

// 1 to 64, the same in both directions.
inline std::uint32_t weight(Vertex u, Vertex v) {
  return static_cast<std::uint32_t>(
      Random(std::uint64_t{std::min(u, v)} << 32U | std::max(u, v)).next() % 64 + 1);
}

struct Bfs {
  static std::uint32_t start(Vertex v, Vertex source) { return v == source ? 0 : kFar; }
  static std::uint32_t along(std::uint32_t value, Vertex /*u*/, Vertex /*v*/) { return value + 1; }
};
struct Sssp {
  static std::uint32_t start(Vertex v, Vertex source) { return v == source ? 0 : kFar; }
  static std::uint32_t along(std::uint32_t value, Vertex u, Vertex v) {
    return value + weight(u, v);
  }
};
struct Components {
  static std::uint32_t start(Vertex v, Vertex /*source*/) { return v; }
  static std::uint32_t along(std::uint32_t value, Vertex /*u*/, Vertex /*v*/) { return value; }
};

// What a rank can send to each at most in a round: all mirrors there.
template <class Value>
std::vector<std::size_t> most_to(const Graph& graph, const Blocks& blocks, int rank) {
  std::vector<bool> seen(graph.vertices, false);
  std::vector<std::size_t> most(static_cast<std::size_t>(blocks.ranks), 0);
  for (Vertex u = blocks.first(rank); u < blocks.first(rank + 1); ++u) {
    for (auto i = graph.first[u]; i < graph.first[u + 1]; ++i) {
      const Vertex v = graph.neighbours[i];
      if (seen[v]) continue;
      seen[v] = true;
      most[static_cast<std::size_t>(blocks.owner(v))] += sizeof(Update<Value>);
    }
  }
  return most;
}

// Values of this rank's own vertices.
template <class Program>
std::vector<std::uint32_t> run_minimum(const Graph& graph, Vertex source, Exchange& exchange) {
  const Blocks blocks{graph.vertices, exchange.size()};
  const Vertex low = blocks.first(exchange.rank());
  const Vertex high = blocks.first(exchange.rank() + 1);
  exchange.prepare(most_to<std::uint32_t>(graph, blocks, exchange.rank()));
  std::vector<std::uint32_t> values(graph.vertices, kFar);  // masters, and mirrors of the rest
  std::vector<bool> listed(graph.vertices, false);
  std::vector<Vertex> active;
  for (Vertex v = low; v < high; ++v) {
    values[v] = Program::start(v, source);
    if (values[v] != kFar) active.push_back(v);
  }
  while (exchange.sum(static_cast<std::int64_t>(active.size())) != 0) {
    std::vector<Vertex> next;
    std::vector<Vertex> changed;
    const auto improve = [&](Vertex v, std::uint32_t value) {
      if (value >= values[v]) return;
      values[v] = value;
      if (listed[v]) return;
      listed[v] = true;
      (v >= low && v < high ? next : changed).push_back(v);
    };
    for (const Vertex u : active) {
      for (auto i = graph.first[u]; i < graph.first[u + 1]; ++i) {
        const Vertex v = graph.neighbours[i];
        improve(v, Program::along(values[u], u, v));
      }
    }
    std::vector<Buffer> out(static_cast<std::size_t>(exchange.size()));
    for (const Vertex v : changed) {
      append(out[static_cast<std::size_t>(blocks.owner(v))], Update<std::uint32_t>{v, values[v]});
      listed[v] = false;
    }
    exchange.round(out, [&](int /*from*/, std::span<const std::byte> data) {
      for_each_update<std::uint32_t>(data, [&](const auto& u) { improve(u.vertex, u.value); });
    });
    for (const Vertex v : next) listed[v] = false;
    active = std::move(next);
  }
  return {values.begin() + low, values.begin() + high};
}

// By a queue of the nearest first: another way to the same minimum.
template <class Program>
std::vector<std::uint32_t> serial_minimum(const Graph& graph, Vertex source) {
  using Item = std::pair<std::uint32_t, Vertex>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  std::vector<std::uint32_t> values(graph.vertices);
  for (Vertex v = 0; v < graph.vertices; ++v) {
    values[v] = Program::start(v, source);
    if (values[v] != kFar) queue.emplace(values[v], v);
  }
  while (!queue.empty()) {
    const auto [value, u] = queue.top();
    queue.pop();
    if (value != values[u]) continue;
    for (auto i = graph.first[u]; i < graph.first[u + 1]; ++i) {
      const Vertex v = graph.neighbours[i];
      const std::uint32_t better = Program::along(value, u, v);
      if (better >= values[v]) continue;
      values[v] = better;
      queue.emplace(better, v);
    }
  }
  return values;
}

// --- page rank ----------------------------------------------------------------------------------

inline constexpr double kDamping = 0.85;

// One step: what each vertex in [low, high) gives to its neighbours.
inline void push_ranks(const Graph& graph, const std::vector<double>& ranks, Vertex low,
                       Vertex high, std::vector<double>& sums) {
  for (Vertex u = low; u < high; ++u) {
    if (graph.degree(u) == 0) continue;
    const double share = ranks[u] / static_cast<double>(graph.degree(u));
    for (auto i = graph.first[u]; i < graph.first[u + 1]; ++i) sums[graph.neighbours[i]] += share;
  }
}

inline std::vector<double> run_pagerank(const Graph& graph, int rounds, Exchange& exchange) {
  const Blocks blocks{graph.vertices, exchange.size()};
  const Vertex low = blocks.first(exchange.rank());
  const Vertex high = blocks.first(exchange.rank() + 1);
  exchange.prepare(most_to<double>(graph, blocks, exchange.rank()));
  std::vector<double> ranks(graph.vertices, 1.0 / graph.vertices);
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> sums(graph.vertices, 0);
    push_ranks(graph, ranks, low, high, sums);
    std::vector<Buffer> out(static_cast<std::size_t>(exchange.size()));
    for (Vertex v = 0; v < graph.vertices; ++v) {
      if ((v >= low && v < high) || sums[v] == 0) continue;
      append(out[static_cast<std::size_t>(blocks.owner(v))], Update<double>{v, sums[v]});
    }
    exchange.round(out, [&](int /*from*/, std::span<const std::byte> data) {
      for_each_update<double>(data, [&](const auto& u) { sums[u.vertex] += u.value; });
    });
    for (Vertex v = low; v < high; ++v) {
      ranks[v] = (1 - kDamping) / graph.vertices + kDamping * sums[v];
    }
  }
  return {ranks.begin() + low, ranks.begin() + high};
}

inline std::vector<double> serial_pagerank(const Graph& graph, int rounds) {
  std::vector<double> ranks(graph.vertices, 1.0 / graph.vertices);
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> sums(graph.vertices, 0);
    push_ranks(graph, ranks, 0, graph.vertices, sums);
    for (Vertex v = 0; v < graph.vertices; ++v) {
      ranks[v] = (1 - kDamping) / graph.vertices + kDamping * sums[v];
    }
  }
  return ranks;
}

}  // namespace graph
