// SPDX-License-Identifier: BSD-3-Clause
// Graphs for counting triangles: where edges come from, and the form in which they are counted.
//
// An *edge list* is raw: it may name an edge twice, in both directions, or from a vertex to itself.
// A *graph* is simple and undirected; its vertices are numbered anew, those of high degree first,
// and each edge is kept at its higher vertex alone. So every triangle u > v > w is found exactly
// once, at u, and the lists to be compared stay short. Limits: fewer than 2^27 vertices; every rank
// holds the whole graph.
#ifndef WORKSHARE_GRAPH_H
#define WORKSHARE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_VERTICES = 1 << 27, MAX_SCALE = 26, MAX_CHECKED_VERTICES = 1 << 14 };

struct edge {
  int32_t high, low;  // which is which matters only after graph_build has ordered them
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

// 2^scale vertices and `degree` edges for each: a Kronecker graph with the probabilities of the
// Graph500 benchmark. The same on every rank and with every compiler. False when memory is short.
bool edges_generate(int scale, int degree, uint64_t seed, struct edge_list* list);

// Two vertex numbers a line; empty lines and those that start with # or % are skipped. Collective
// over MPI_COMM_WORLD: rank 0 reads. False when that fails; rank 0 has then said why.
bool edges_read(const char* file, struct edge_list* list);
void edges_free(struct edge_list* list);

// Orders and simplifies the list on the way. False when memory is short.
bool graph_build(struct edge_list* list, struct graph* graph);
void graph_free(struct graph* graph);

// Triangles whose highest vertex is u.
uint64_t graph_triangles_at(const struct graph* graph, int u);

// All triangles of a raw list, counted in another way: rows of the adjacency matrix as bits. False
// when memory is short. Limit: MAX_CHECKED_VERTICES.
bool edges_count_triangles(const struct edge_list* list, uint64_t* triangles);

#endif
