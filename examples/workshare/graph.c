// SPDX-License-Identifier: BSD-3-Clause
// Generates, reads and orders graphs, and counts triangles. See graph.h.
#include "graph.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mix.h"

void edges_free(struct edge_list* list) {
  free(list->edges);
  *list = (struct edge_list){0};
}

// --- generating an edge list

// Returns a random edge. On each of `scale` levels the edge falls into a quarter of the remaining
// part of the adjacency matrix, with the probabilities a, b, c and 1 - a - b - c. The random number
// depends only on `key` and level.
static struct edge kronecker_edge(int scale, uint64_t key) {
  const double a = 0.57, b = 0.19, c = 0.19;
  struct edge edge = {0, 0};
  for (int level = 0; level < scale; ++level) {
    const double random = (double)(mix64(key + (uint64_t)level) >> 11) * 0x1p-53;
    const int below = random >= a + b;
    const int right = below ? random >= a + b + c : random >= a;
    edge.high = 2 * edge.high + below;
    edge.low = 2 * edge.low + right;
  }
  return edge;
}

bool edges_generate(int scale, int degree, uint64_t seed, struct edge_list* list) {
  list->vertices = 1 << scale;
  list->count = (size_t)degree << scale;
  list->edges = malloc(list->count * sizeof *list->edges);
  if (list->edges == NULL) return false;
  for (size_t i = 0; i < list->count; ++i) {
    list->edges[i] = kronecker_edge(scale, mix64(mix64(seed) ^ i));
  }
  return true;
}

// --- reading an edge list

static bool append(struct edge_list* list, size_t* room, struct edge edge) {
  if (list->count == *room) {
    *room = *room == 0 ? 1024 : 2 * *room;
    struct edge* larger = realloc(list->edges, *room * sizeof *larger);
    if (larger == NULL) return false;
    list->edges = larger;
  }
  list->edges[list->count++] = edge;
  if (edge.high >= list->vertices) list->vertices = edge.high + 1;
  if (edge.low >= list->vertices) list->vertices = edge.low + 1;
  return true;
}

static bool read_vertex(const char** text, int32_t* vertex) {
  char* end = NULL;
  errno = 0;
  const long number = strtol(*text, &end, 10);
  if (errno != 0 || end == *text || number < 0 || number >= MAX_VERTICES) return false;
  *vertex = (int32_t)number;
  *text = end;
  return true;
}

static const char* after_space(const char* text) {
  while (isspace((unsigned char)*text)) ++text;
  return text;
}

static bool read_line(const char* text, struct edge* edge) {
  return read_vertex(&text, &edge->high) && read_vertex(&text, &edge->low) &&
         *after_space(text) == '\0';
}

// Reads the edges, one in each line, into `list`. Returns 0 for success, the number of a malformed
// line, or -1 when memory is short.
static long read_lines(FILE* stream, struct edge_list* list) {
  char* line = NULL;
  size_t size = 0, room = 0;
  long fault = 0;
  for (long number = 1; fault == 0 && getline(&line, &size, stream) >= 0; ++number) {
    const char* text = after_space(line);
    struct edge edge;
    if (*text == '\0' || *text == '#' || *text == '%') continue;
    if (!read_line(text, &edge)) {
      fault = number;
    } else if (!append(list, &room, edge)) {
      fault = -1;
    }
  }
  free(line);
  return fault;
}

static bool read_file(const char* file, struct edge_list* list) {
  FILE* stream = fopen(file, "r");
  if (stream == NULL) {
    fprintf(stderr, "triangles: cannot read %s: %s\n", file, strerror(errno));
    return false;
  }
  const long fault = read_lines(stream, list);
  const bool failed = ferror(stream) != 0;
  fclose(stream);
  if (failed) {
    fprintf(stderr, "triangles: cannot read %s to its end\n", file);
  } else if (fault < 0) {
    fprintf(stderr, "triangles: not enough memory for the edges of %s\n", file);
  } else if (fault > 0) {
    fprintf(stderr, "triangles: %s:%ld: expected two vertex numbers from 0 to %d\n", file, fault,
            MAX_VERTICES - 1);
  } else if (list->count == 0) {
    fprintf(stderr, "triangles: %s: no edges: expected two vertex numbers a line\n", file);
  }
  return !failed && fault == 0 && list->count > 0;
}

static bool all_agree(bool ok) {
  int word = ok;
  MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return word != 0;
}

static void broadcast_edges(struct edge_list* list) {
  const size_t most = INT_MAX / 2;  // most edges, two ints each, in one message
  for (size_t done = 0; done < list->count; done += most) {
    const size_t count = list->count - done < most ? list->count - done : most;
    MPI_Bcast(list->edges + done, (int)(2 * count), MPI_INT32_T, 0, MPI_COMM_WORLD);
  }
}

bool edges_read(const char* file, struct edge_list* list) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (!all_agree(rank != 0 || read_file(file, list))) return false;
  uint64_t sizes[2] = {(uint64_t)list->vertices, list->count};
  MPI_Bcast(sizes, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  list->vertices = (int)sizes[0];
  list->count = (size_t)sizes[1];
  if (rank != 0) list->edges = malloc(list->count * sizeof *list->edges);
  if (!all_agree(list->edges != NULL)) {
    if (rank == 0) fprintf(stderr, "triangles: not enough memory for the edges of %s\n", file);
    return false;
  }
  broadcast_edges(list);
  return true;
}

// --- making the graph: sorting and renumbering

// Counts edges by a key, the vertex `high` of an edge if `by_high`, else `low`. Sets start[k + 1]
// to the number of edges with a key of at most k. `start` has vertices + 1 elements.
static void count_starts(const struct edge_list* list, bool by_high, size_t* start) {
  memset(start, 0, ((size_t)list->vertices + 1) * sizeof *start);
  for (size_t i = 0; i < list->count; ++i) {
    ++start[(by_high ? list->edges[i].high : list->edges[i].low) + 1];
  }
  for (int vertex = 0; vertex < list->vertices; ++vertex) start[vertex + 1] += start[vertex];
}

// Sorts the edges by their vertex `high` if `by_high`, else by `low`. Writes them to the array
// `sorted`, then exchanges the arrays `sorted` and list->edges. The sort is stable and takes linear
// time.
static void sort_by(struct edge_list* list, bool by_high, size_t* start, struct edge** sorted) {
  count_starts(list, by_high, start);
  for (size_t i = 0; i < list->count; ++i) {
    const struct edge edge = list->edges[i];
    (*sorted)[start[by_high ? edge.high : edge.low]++] = edge;
  }
  struct edge* before = list->edges;
  list->edges = *sorted;
  *sorted = before;
}

static void sort_edges(struct edge_list* list, size_t* start, struct edge** spare) {
  sort_by(list, false, start, spare);
  sort_by(list, true, start, spare);
}

static struct edge ordered(int32_t a, int32_t b) {
  return a > b ? (struct edge){a, b} : (struct edge){b, a};
}

static void drop_loops(struct edge_list* list) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; ++i) {
    const struct edge edge = list->edges[i];
    if (edge.high != edge.low) list->edges[kept++] = ordered(edge.high, edge.low);
  }
  list->count = kept;
}

static void drop_repeated(struct edge_list* list) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; ++i) {
    const struct edge edge = list->edges[i];
    const struct edge last = kept > 0 ? list->edges[kept - 1] : (struct edge){-1, -1};
    if (edge.high != last.high || edge.low != last.low) list->edges[kept++] = edge;
  }
  list->count = kept;
}

// Sets number[v] to the place of vertex v in the order of falling degrees. Vertices of equal degree
// keep their order. `place` is scratch memory of vertices + 1 elements.
static void number_by_degree(const struct edge_list* list, int32_t* number, size_t* place) {
  int32_t* degree = number;
  const int n = list->vertices;
  memset(degree, 0, (size_t)n * sizeof *degree);
  for (size_t i = 0; i < list->count; ++i) {
    ++degree[list->edges[i].high];
    ++degree[list->edges[i].low];
  }
  // The following loops set place[d] to the number of vertices with a higher degree than d. Degrees
  // are below n.
  memset(place, 0, ((size_t)n + 1) * sizeof *place);
  for (int v = 0; v < n; ++v) ++place[degree[v]];
  size_t higher = 0;
  for (int d = n - 1; d >= 0; --d) {
    const size_t here = place[d];
    place[d] = higher;
    higher += here;
  }
  for (int v = 0; v < n; ++v) number[v] = (int32_t)place[degree[v]]++;
}

static void renumber(struct edge_list* list, const int32_t* number) {
  for (size_t i = 0; i < list->count; ++i) {
    list->edges[i] = ordered(number[list->edges[i].high], number[list->edges[i].low]);
  }
}

static bool copy_lists(const struct edge_list* list, struct graph* graph) {
  graph->vertices = list->vertices;
  graph->edges = list->count;
  graph->lower = malloc((list->count + 1) * sizeof *graph->lower);
  if (graph->lower == NULL) return false;
  for (size_t i = 0; i < list->count; ++i) graph->lower[i] = list->edges[i].low;
  count_starts(list, true, graph->start);
  return true;
}

bool graph_build(struct edge_list* list, struct graph* graph) {
  struct edge* spare = malloc((list->count + 1) * sizeof *spare);
  int32_t* number = malloc((size_t)list->vertices * sizeof *number);
  graph->start = malloc(((size_t)list->vertices + 1) * sizeof *graph->start);
  bool ok = spare != NULL && number != NULL && graph->start != NULL;
  if (ok) {
    drop_loops(list);
    sort_edges(list, graph->start, &spare);
    drop_repeated(list);
    number_by_degree(list, number, graph->start);
    renumber(list, number);
    sort_edges(list, graph->start, &spare);
    ok = copy_lists(list, graph);
  }
  free(spare);
  free(number);
  return ok;
}

void graph_free(struct graph* graph) {
  free(graph->start);
  free(graph->lower);
  *graph = (struct graph){0};
}

// --- counting triangles

// Returns how many values two ascending lists have in common: vertices that are neighbours of both
// ends of an edge.
static uint64_t common_values(const int32_t* a, const int32_t* a_end, const int32_t* b,
                              const int32_t* b_end) {
  uint64_t count = 0;
  for (; b < b_end; ++b) {
    while (a < a_end && *a < *b) ++a;
    if (a == a_end) break;
    count += *a == *b;
  }
  return count;
}

uint64_t graph_triangles_at(const struct graph* graph, int u) {
  const int32_t* first = graph->lower + graph->start[u];
  const int32_t* end = graph->lower + graph->start[u + 1];
  uint64_t count = 0;
  for (const int32_t* v = first; v < end; ++v) {
    const int32_t* w = graph->lower + graph->start[*v];
    count += common_values(first, v, w, graph->lower + graph->start[*v + 1]);
  }
  return count;
}

// --- counting triangles by bits, for the check

static void set_bit(uint64_t* bits, size_t words, int row, int column) {
  bits[(size_t)row * words + (size_t)column / 64] |= UINT64_C(1) << (column % 64);
}

static void fill_bits(const struct edge_list* list, uint64_t* bits, size_t words) {
  for (size_t i = 0; i < list->count; ++i) {
    const struct edge edge = list->edges[i];
    if (edge.high == edge.low) continue;
    set_bit(bits, words, edge.high, edge.low);
    set_bit(bits, words, edge.low, edge.high);
  }
}

static uint64_t common_bits(const uint64_t* a, const uint64_t* b, size_t words) {
  uint64_t count = 0;
  for (size_t i = 0; i < words; ++i) count += (uint64_t)__builtin_popcountll(a[i] & b[i]);
  return count;
}

bool edges_count_triangles(const struct edge_list* list, uint64_t* triangles) {
  const size_t words = ((size_t)list->vertices + 63) / 64;
  uint64_t* bits = calloc((size_t)list->vertices * words, sizeof *bits);
  uint64_t corners = 0;
  if (bits == NULL) return false;
  fill_bits(list, bits, words);
  for (int u = 0; u < list->vertices; ++u) {
    const uint64_t* row = bits + (size_t)u * words;
    for (int v = 0; v < u; ++v) {
      if ((row[v / 64] >> (v % 64)) & 1) {
        corners += common_bits(row, bits + (size_t)v * words, words);
      }
    }
  }
  free(bits);
  *triangles = corners / 3;  // each triangle is counted at its three edges
  return true;
}
