// SPDX-License-Identifier: BSD-3-Clause
// Breadth-first search, connected components, shortest paths and page rank, as vertex programs on a
// partitioned graph (partition.hpp), and as serial programs for the check.
//
// An iteration on a vertex cut has two exchanges. In the first, the values of changed masters go to
// the mirrors at the ranks that have edges out of these masters. In the second, the values that
// edges have given to mirrors go to their masters. An edge cut has the second exchange only.
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
#include "partition.hpp"

namespace graph {

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

// --- programs that look for a minimum: bfs, sssp, cc --------------------------------------------

inline constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

// Returns the weight of an edge, 1 to 64, the same in both directions.
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

// Collective: a round that sends the values of this rank's `changed` vertices to the ranks with
// edges out of these vertices. Calls `use` for each value that arrives from another rank.
template <class Value, class Use>
void broadcast(const Partition& partition, const std::vector<Vertex>& changed,
               const std::vector<Value>& values, Exchange& exchange, Use use) {
  std::vector<Buffer> out(static_cast<std::size_t>(partition.ranks()));
  for (int to = 0; to < partition.ranks(); ++to) {
    for (const Vertex v : changed) {
      if (!partition.reads(to, v)) continue;
      append(out[static_cast<std::size_t>(to)], Update<Value>{v, values[v]});
    }
  }
  exchange.round(out, [&](int /*from*/, std::span<const std::byte> data) {
    for_each_update<Value>(data, use);
  });
}

template <class Program>
class Minimum {
 public:
  Minimum(const Partition& partition, Vertex source, Exchange& exchange)
      : partition_(partition),
        exchange_(exchange),
        values_(partition.edges().vertices, kFar),
        listed_(partition.edges().vertices, false) {
    exchange.prepare(partition.most_to(sizeof(Update<std::uint32_t>)));
    for (Vertex v = partition.low(); v < partition.high(); ++v) {
      values_[v] = Program::start(v, source);
      if (values_[v] != kFar) active_.push_back(v);
    }
  }

  // Collective. Iterates until no value changes. Returns the values of this rank's own vertices
  // (masters).
  std::vector<std::uint32_t> run() {
    while (exchange_.sum(static_cast<std::int64_t>(active_.size())) != 0) iterate();
    return {values_.begin() + partition_.low(), values_.begin() + partition_.high()};
  }

 private:
  using Item = Update<std::uint32_t>;

  void iterate() {
    if (partition_.broadcasts()) {
      broadcast(partition_, std::vector<Vertex>(active_), values_, exchange_,
                [this](const Item& item) {
                  values_[item.vertex] = item.value;
                  active_.push_back(item.vertex);
                });
    }
    follow_edges();
    std::vector<Buffer> out(static_cast<std::size_t>(partition_.ranks()));
    for (const Vertex v : changed_) {
      append(out[static_cast<std::size_t>(partition_.blocks().owner(v))], Item{v, values_[v]});
      listed_[v] = false;
    }
    changed_.clear();
    exchange_.round(out, [this](int /*from*/, std::span<const std::byte> data) {
      for_each_update<std::uint32_t>(data, [this](const Item& i) { improve(i.vertex, i.value); });
    });
    for (const Vertex v : next_) listed_[v] = false;
    active_ = std::move(next_);
    next_.clear();
  }

  void follow_edges() {
    const Graph& graph = partition_.edges();
    for (const Vertex u : active_) {
      for (auto i = graph.first[u]; i < graph.first[u + 1]; ++i) {
        const Vertex v = graph.neighbours[i];
        improve(v, Program::along(values_[u], u, v));
      }
    }
  }

  void improve(Vertex v, std::uint32_t value) {
    if (value >= values_[v]) return;
    values_[v] = value;
    if (listed_[v]) return;
    listed_[v] = true;
    (partition_.is_mine(v) ? next_ : changed_).push_back(v);
  }

  const Partition& partition_;
  Exchange& exchange_;
  std::vector<std::uint32_t> values_;  // of masters and mirrors
  std::vector<bool> listed_;           // by vertex: whether it is in next_ or changed_
  std::vector<Vertex> active_;         // vertices whose edges this iteration follows
  std::vector<Vertex> next_;           // masters that have changed
  std::vector<Vertex> changed_;        // mirrors that have changed
};

// Computes the same values as the class Minimum, for the check: serially, by Dijkstra's algorithm
// with a priority queue.
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

// --- page rank: in rounds, and serially ---------------------------------------------------------

inline constexpr double kDamping = 0.85;

// A step of page rank. `edges` are one rank's part of `graph`. For each edge from u to v, adds u's
// page rank divided by u's degree in `graph` to the sum of v.
inline void push_ranks(const Graph& graph, const Graph& edges, const std::vector<double>& ranks,
                       std::vector<double>& sums) {
  for (Vertex u = 0; u < edges.vertices; ++u) {
    if (edges.degree(u) == 0) continue;
    const double share = ranks[u] / static_cast<double>(graph.degree(u));
    for (auto i = edges.first[u]; i < edges.first[u + 1]; ++i) sums[edges.neighbours[i]] += share;
  }
}

inline std::vector<double> run_pagerank(const Graph& graph, const Partition& partition, int rounds,
                                        Exchange& exchange) {
  exchange.prepare(partition.most_to(sizeof(Update<double>)));
  (void)exchange.sum(0);  // waits until all ranks have made the graph
  std::vector<double> ranks(graph.vertices, 1.0 / graph.vertices);
  std::vector<Vertex> masters;
  for (Vertex v = partition.low(); v < partition.high(); ++v) masters.push_back(v);
  for (int round = 0; round < rounds; ++round) {
    if (partition.broadcasts()) {
      broadcast(partition, masters, ranks, exchange,
                [&](const Update<double>& u) { ranks[u.vertex] = u.value; });
    }
    std::vector<double> sums(graph.vertices, 0);
    push_ranks(graph, partition.edges(), ranks, sums);
    std::vector<Buffer> out(static_cast<std::size_t>(exchange.size()));
    for (Vertex v = 0; v < graph.vertices; ++v) {
      if (partition.is_mine(v) || sums[v] == 0) continue;
      append(out[static_cast<std::size_t>(partition.blocks().owner(v))],
             Update<double>{v, sums[v]});
    }
    exchange.round(out, [&](int /*from*/, std::span<const std::byte> data) {
      for_each_update<double>(data, [&](const auto& u) { sums[u.vertex] += u.value; });
    });
    for (const Vertex v : masters) {
      ranks[v] = (1 - kDamping) / graph.vertices + kDamping * sums[v];
    }
  }
  return {ranks.begin() + partition.low(), ranks.begin() + partition.high()};
}

inline std::vector<double> serial_pagerank(const Graph& graph, int rounds) {
  std::vector<double> ranks(graph.vertices, 1.0 / graph.vertices);
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> sums(graph.vertices, 0);
    push_ranks(graph, graph, ranks, sums);
    for (Vertex v = 0; v < graph.vertices; ++v) {
      ranks[v] = (1 - kDamping) / graph.vertices + kDamping * sums[v];
    }
  }
  return ranks;
}

}  // namespace graph
