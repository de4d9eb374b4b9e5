// SPDX-License-Identifier: BSD-3-Clause
// Graphs for counting triangles: making and reading edge lists, and the graph that is counted.
//
// An *edge list* is raw: it may have an edge twice, in both directions, or from a vertex to itself.
// A *graph* is simple and undirected. Its vertices are renumbered by falling degree, and each edge
// is stored only at its higher vertex. Thus the count finds every triangle u > v > w exactly once,
// at u, and the lists to compare are short. Limits: fewer than 2^27 vertices; every rank holds the
// whole graph.
#ifndef WORKSHARE_GRAPH_H
#define WORKSHARE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_VERTICES = 1 << 27, MAX_SCALE = 26, MAX_CHECKED_VERTICES = 1 << 14 };

struct edge {
  int32_t high, low;  // in any order until graph_build() orders them
};

struct edge_list {
  int vertices;
  size_t count;
  struct edge* edges;
};

struct graph {
  int vertices;
  size_t edges;
  size_t* start;   // of the list of vertex u in `lower`; its end is start[u + 1]
  int32_t* lower;  // neighbours with smaller numbers, in ascending order
};

// Makes a Kronecker graph of 2^scale vertices and `degree` edges for each, with the probabilities
// of the Graph500 benchmark. The graph is the same on every rank and with every compiler. Returns
// false when memory is short.
bool edges_generate(int scale, int degree, uint64_t seed, struct edge_list* list);

// Reads two vertex numbers a line; skips empty lines and lines that start with # or %. Collective
// over MPI_COMM_WORLD: rank 0 reads. Returns false on failure; rank 0 prints the reason.
bool edges_read(const char* file, struct edge_list* list);
void edges_free(struct edge_list* list);

// Makes the graph; also orders and simplifies the list. Returns false when memory is short.
bool graph_build(struct edge_list* list, struct graph* graph);
void graph_free(struct graph* graph);

// Returns the number of triangles whose highest vertex is u.
uint64_t graph_triangles_at(const struct graph* graph, int u);

// Counts all triangles of a raw list by another method, with rows of the adjacency matrix as bits.
// Returns false when memory is short. Limit: MAX_CHECKED_VERTICES.
bool edges_count_triangles(const struct edge_list* list, uint64_t* triangles);

#endif
