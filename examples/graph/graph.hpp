// SPDX-License-Identifier: BSD-3-Clause
// Graphs: compressed sparse rows, generators, and reading of common files.
//
// Every rank makes and keeps the whole graph, so the edge list must fit into the memory of each
// rank. Vertices are 32-bit numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace graph {

using Vertex = std::uint32_t;
using Edge = std::pair<Vertex, Vertex>;

struct Graph {
  Vertex vertices = 0;
  std::vector<std::uint64_t> first;  // index of each vertex's first neighbour; vertices + 1 numbers
  std::vector<Vertex> neighbours;

  [[nodiscard]] std::uint64_t degree(Vertex v) const { return first[v + 1] - first[v]; }
};

// Makes a symmetric graph from `edges`, and drops self-loops and repeated edges.
inline Graph from_edges(Vertex vertices, std::vector<Edge> edges) {
  const std::size_t count = edges.size();
  for (std::size_t i = 0; i < count; ++i) edges.emplace_back(edges[i].second, edges[i].first);
  std::erase_if(edges, [](const Edge& e) { return e.first == e.second; });
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  Graph graph;
  graph.vertices = vertices;
  graph.first.assign(vertices + std::size_t{1}, 0);
  for (const Edge& e : edges) ++graph.first[e.first + 1];
  for (Vertex v = 0; v < vertices; ++v) graph.first[v + 1] += graph.first[v];
  for (const Edge& e : edges) graph.neighbours.push_back(e.second);
  return graph;
}

// A generator whose random numbers are the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {  // splitmix64
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
  }
  double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

// The probabilities of a recursive matrix (RMAT), a random graph. For each bit position, an edge
// falls into a quarter of the rest of the adjacency matrix; the quarter gives this bit of both
// vertex numbers. The fourth probability is 1 - a - b - c. Graph500 has 0.57, 0.19, 0.19.
struct Quarters {
  double a, b, c;
};
inline constexpr Quarters kRmat{0.45, 0.22, 0.22};
inline constexpr Quarters kKronecker{0.57, 0.19, 0.19};

inline Graph recursive(unsigned scale, unsigned degree, Quarters q, std::uint64_t seed) {
  const Vertex vertices = Vertex{1} << scale;
  Random random(seed);
  // Renumbers the vertices at random. Each rank has a block of consecutive vertices, and vertices
  // of high degree are then spread over all ranks.
  std::vector<Vertex> name(vertices);
  for (Vertex v = 0; v < vertices; ++v) name[v] = v;
  for (Vertex v = vertices; v > 1; --v) std::swap(name[v - 1], name[random.next() % v]);
  std::vector<Edge> edges;
  for (std::uint64_t i = 0; i < std::uint64_t{vertices} * degree / 2; ++i) {
    Vertex u = 0;
    Vertex v = 0;
    for (unsigned bit = 0; bit < scale; ++bit) {
      const double x = random.unit();
      const bool down = x >= q.a + q.b;
      const bool right = (x >= q.a && !down) || x >= q.a + q.b + q.c;
      u = 2 * u + (down ? 1 : 0);
      v = 2 * v + (right ? 1 : 0);
    }
    edges.emplace_back(name[u], name[v]);
  }
  return from_edges(vertices, std::move(edges));
}

// --- reading graphs from files -----------------------------------------------------------------

// Reads an edge "U V" from each line. The file numbers its first vertex `base`, 0 or 1. Skips lines
// that begin with # or %.
inline Graph read_edges(std::istream& file, Vertex base) {
  std::vector<Edge> edges;
  Vertex most = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line[0] == '%') continue;
    std::istringstream words(line);
    Vertex u = 0;
    Vertex v = 0;
    if (!(words >> u >> v) || u < base || v < base) throw std::runtime_error("no edge: " + line);
    edges.emplace_back(u - base, v - base);
    most = std::max({most, u - base, v - base});
  }
  return from_edges(most + 1, std::move(edges));
}

// Reads a graph in Matrix Market's coordinate format. Each entry is an edge; its value is ignored.
inline Graph read_matrix_market(std::istream& file) {
  std::string line;
  while (std::getline(file, line) && !line.empty() && line[0] == '%') {
  }
  std::istringstream sizes(line);
  Vertex rows = 0;
  Vertex columns = 0;
  if (!(sizes >> rows >> columns)) throw std::runtime_error("no sizes: " + line);
  Graph graph = read_edges(file, 1);
  graph.first.resize(std::max({rows, columns, graph.vertices}) + std::size_t{1},
                     graph.first.back());
  graph.vertices = static_cast<Vertex>(graph.first.size() - 1);
  return graph;
}

// Reads a serialized graph of the GAP benchmark suite: a flag for directed graphs, the numbers of
// edges and vertices, offsets, neighbours.
inline Graph read_gap(std::istream& file) {
  const auto read = [&file](void* into, std::size_t size) {
    if (!file.read(static_cast<char*>(into), static_cast<std::streamsize>(size))) {
      throw std::runtime_error("the file is too short");
    }
  };
  bool directed = false;
  std::int64_t sizes[2] = {};
  read(&directed, 1);
  read(sizes, sizeof sizes);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(sizes[1]) + 1);
  read(offsets.data(), offsets.size() * sizeof offsets[0]);
  std::vector<std::int32_t> to(static_cast<std::size_t>(offsets.back()));
  read(to.data(), to.size() * sizeof to[0]);
  std::vector<Edge> edges;
  for (Vertex v = 0; v + 1 < offsets.size(); ++v) {
    for (auto i = offsets[v]; i < offsets[v + 1]; ++i) {
      edges.emplace_back(v, static_cast<Vertex>(to[static_cast<std::size_t>(i)]));
    }
  }
  return from_edges(static_cast<Vertex>(sizes[1]), std::move(edges));
}

inline Graph read_graph(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  if (path.ends_with(".mtx")) return read_matrix_market(file);
  if (path.ends_with(".sg")) return read_gap(file);
  return read_edges(file, 0);
}

}  // namespace graph
