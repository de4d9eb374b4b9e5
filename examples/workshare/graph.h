// SPDX-License-Identifier: BSD-3-Clause
// Graphs whose triangles are counted, and the edge lists from which they are made.
//
// An *edge list* is raw: it may have an edge twice, in both directions, or from a vertex to itself.
// A *graph* is simple and undirected. Its vertices are renumbered by falling degree, and each edge
// is stored only at its vertex with the higher number. Thus the count finds every triangle u > v >
// w exactly once, at u, and the lists to compare are short. Limits: at most 2^27 vertices; every
// rank holds the whole graph.
#ifndef WORKSHARE_GRAPH_H
#define WORKSHARE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_VERTICES = 1 << 27, MAX_SCALE = 26, MAX_CHECKED_VERTICES = 1 << 14 };

struct edge {
  int32_t high, low;  // the two vertices; high > low only after graph_build()
};

struct edge_list {
  int vertices;
  size_t count;
  struct edge* edges;
};

struct graph {
  int vertices;
  size_t edges;
  size_t* start;   // start[u] to start[u + 1]: the list of vertex u in `lower`
  int32_t* lower;  // neighbours with smaller numbers, in ascending order
};

// Makes the edge list of a Kronecker graph, with 2^scale vertices, `degree` edges for each, and the
// probabilities of the Graph500 benchmark. The list is the same on every rank and with every
// compiler. Returns false when memory is short.
bool edges_generate(int scale, int degree, uint64_t seed, struct edge_list* list);

// Reads an edge, two vertex numbers, from each line of a file; skips empty lines and lines that
// start with # or %. Collective over MPI_COMM_WORLD: rank 0 reads the file and broadcasts the list.
// Returns false on failure; rank 0 prints the reason.
bool edges_read(const char* file, struct edge_list* list);
void edges_free(struct edge_list* list);

// Makes the graph of an edge list. Orders, simplifies and renumbers the edges of `list` in place.
// Returns false when memory is short.
bool graph_build(struct edge_list* list, struct graph* graph);
void graph_free(struct graph* graph);

// Returns the number of triangles whose vertex with the highest number is u.
uint64_t graph_triangles_at(const struct graph* graph, int u);

// Counts all triangles of a raw list by another method, with rows of the adjacency matrix as bits.
// Returns false when memory is short. Limit: at most MAX_CHECKED_VERTICES vertices, which take 32
// MiB.
bool edges_count_triangles(const struct edge_list* list, uint64_t* triangles);

#endif
