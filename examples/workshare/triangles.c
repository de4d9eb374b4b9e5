// SPDX-License-Identifier: BSD-3-Clause
// Counts the triangles of a graph, in the manner of the GAP benchmark suite, on P ranks.
//
// Every rank holds the whole graph and counts the triangles at N/P consecutive vertices of N.
// Vertices are numbered by falling degree, so ranks have equal numbers of vertices and very
// different amounts of work. The loop over vertices is shared, with a reduction. The count is an
// integer, the same for any number of ranks and threads and any schedule.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"
#include "json.h"
#include "loops.h"
#include "options.h"
#include "series.h"

static const char kUsage[] =
    "usage: triangles [options]\n"
    "\n"
    "Counts the triangles of a graph; every rank counts at N/P of its N vertices.\n"
    "\n"
    "  --scale S      a generated Kronecker graph of 2^S vertices (default 14)\n"
    "  --degree D     generated edges for each vertex (default 16)\n"
    "  --seed N       of the generated graph (default 1)\n"
    "  --file FILE    this graph instead: two vertex numbers a line, # starts a comment line\n"
    "  --check        count in a second, independent way too (at most 16384 vertices)\n"
    "  --chunk C      vertices that are handed out at a time (default 64)\n"
    "  --repeat N     measured repetitions (default 10)\n"
    "  --warmup N     repetitions before those (default 1)\n"
    "  --reference N  repetitions without a directive, which give the ideal time (default 5, 0: "
    "none)\n"
    "  --json FILE    all times (- for standard output)\n"
    "  --help         this text\n";

static struct {
  int scale, degree, chunk;
  uint64_t seed;
  bool check;
  struct timing_options timing;
  const char* file;
  const char* json_file;
} options = {.chunk = 64, .seed = 1, .timing = {.repeat = 10, .warmup = 1, .reference = 5}};

static const struct option_row kOptions[] = {
    {"scale", OPTION_WHOLE, &options.scale, 1, MAX_SCALE},
    {"degree", OPTION_WHOLE, &options.degree, 1, 1024},
    {"seed", OPTION_SEED, &options.seed, 0, 0},
    {"file", OPTION_NAME, &options.file, 0, 0},
    {"check", OPTION_FLAG, &options.check, 0, 0},
    {"chunk", OPTION_WHOLE, &options.chunk, 1, 1 << 24},
    {"repeat", OPTION_WHOLE, &options.timing.repeat, 1, 1000000},
    {"warmup", OPTION_WHOLE, &options.timing.warmup, 0, 1000000},
    {"reference", OPTION_WHOLE, &options.timing.reference, 0, 1000000},
    {"json", OPTION_NAME, &options.json_file, 0, 0},
    {NULL, OPTION_FLAG, NULL, 0, 0},
};

static const struct program kProgram = {"triangles", kUsage, kOptions};

// --- the measured loop

// A rank's part of the work: the vertices [first, last) of the graph, handed out in chunks of
// `chunk` vertices.
struct part {
  const struct graph* graph;
  int first, last, chunk;
};

static uint64_t count_triangles(const void* work) {
  const struct part* part = work;
  uint64_t count = 0;
  SHARED_FOR(schedule(dynamic, part->chunk) reduction(+ : count))
  for (int u = part->first; u < part->last; ++u) count += graph_triangles_at(part->graph, u);
  return count;
}

// Counts the same triangles as count_triangles(), by a loop without the directive that shares it.
static uint64_t plain_count_triangles(const void* work) {
  const struct part* part = work;
  uint64_t count = 0;
  for (int u = part->first; u < part->last; ++u) count += graph_triangles_at(part->graph, u);
  return count;
}

static struct part part_of(const struct graph* graph, int rank, int ranks) {
  const long vertices = graph->vertices;
  return (struct part){.graph = graph,
                       .first = (int)(vertices * rank / ranks),
                       .last = (int)(vertices * (rank + 1) / ranks),
                       .chunk = options.chunk};
}

// --- obtaining the graph

static bool all_agree(bool ok) {
  int word = ok;
  MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return word != 0;
}

// Collective. Returns whether `ok` is true on every rank. If it is not, because a rank is short of
// memory, rank 0 prints an error.
static bool memory_suffices(bool ok, int rank) {
  if (all_agree(ok)) return true;
  if (rank == 0) {
    fprintf(stderr, "triangles: not enough memory: use a smaller graph or fewer ranks a node\n");
  }
  return false;
}

static bool options_fit(int rank) {
  const bool generated = options.scale > 0 || options.degree > 0;
  if (options.file != NULL && generated) {
    if (rank == 0) {
      fprintf(stderr, "triangles: --file excludes --scale and --degree: leave them out\n");
    }
    return false;
  }
  if (options.scale == 0) options.scale = 14;
  if (options.degree == 0) options.degree = 16;
  return true;
}

static bool obtain_edges(struct edge_list* list, int rank) {
  if (options.file != NULL) return edges_read(options.file, list);
  const bool ok = edges_generate(options.scale, options.degree, options.seed, list);
  return memory_suffices(ok, rank);
}

// Collective. With --check, rank 0 counts the triangles by another method, from the edge list
// before it is simplified. Returns false if the graph is too large for that or memory is short.
static bool count_again(const struct edge_list* list, int rank, uint64_t* triangles) {
  if (!options.check) return true;
  if (list->vertices > MAX_CHECKED_VERTICES) {
    if (rank == 0) {
      fprintf(stderr,
              "triangles: --check: %d vertices, but at most %d can be checked: "
              "use a smaller graph, such as --scale 14\n",
              list->vertices, MAX_CHECKED_VERTICES);
    }
    return false;
  }
  return memory_suffices(rank != 0 || edges_count_triangles(list, triangles), rank);
}

// --- check and output of results

struct result {
  uint64_t triangles, checked;
  int rank, ranks;
};

static bool result_is_right(const struct result* result, bool steady) {
  const bool agrees = !options.check || result->triangles == result->checked;
  if (all_agree(steady && (result->rank != 0 || agrees))) return true;
  if (result->rank == 0) {
    fprintf(stderr, "triangles: the result is WRONG: %s\n",
            agrees ? "repetitions differ" : "it differs from the independent count");
  }
  return false;
}

static void write_json(struct json* json, const struct graph* graph, const struct result* result,
                       const struct timing* timing) {
  json_text(json, "program", "triangles");
  json_text(json, "variant", LOOPS_VARIANT);
  json_whole(json, "ranks", result->ranks);
  json_whole(json, "threads", loops_threads());
  json_whole(json, "vertices", graph->vertices);
  json_whole(json, "edges", (long long)graph->edges);
  json_whole(json, "chunk", options.chunk);
  json_whole(json, "warmup", options.timing.warmup);
  json_whole(json, "triangles", (long long)result->triangles);
  json_flag(json, "checked", options.check);
  timing_json(timing, json);
}

static void print_result(const struct graph* graph, const struct result* result,
                         const struct timing* timing) {
  double* vertices = calloc((size_t)result->ranks, sizeof *vertices);
  if (vertices == NULL) return;
  for (int r = 0; r < result->ranks; ++r) {
    const struct part part = part_of(graph, r, result->ranks);
    vertices[r] = part.last - part.first;
  }
  printf("triangles (%s): %d ranks, %d threads, %d vertices, %zu edges: %llu triangles%s\n",
         LOOPS_VARIANT, result->ranks, loops_threads(), graph->vertices, graph->edges,
         (unsigned long long)result->triangles, options.check ? ", checked" : "");
  timing_print(timing, "vertices", vertices);
  free(vertices);
}

static int measure(const struct graph* graph, struct result* result, struct json* json) {
  struct timing timing = {0};
  const struct part part = part_of(graph, result->rank, result->ranks);
  const bool ok =
      timing_run(&options.timing, plain_count_triangles, count_triangles, &part, &timing);
  bool right = false;
  if (memory_suffices(ok, result->rank)) {
    MPI_Allreduce(&timing.result, &result->triangles, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    right = result_is_right(result, timing.steady);
    write_json(json, graph, result, &timing);
    if (result->rank == 0 && !json_is_stdout(json)) print_result(graph, result, &timing);
  }
  timing_free(&timing);
  return right ? 0 : 1;
}

static int run_with_file(struct json* json, struct result* result) {
  struct edge_list list = {0};
  struct graph graph = {0};
  int status = 2;
  if (obtain_edges(&list, result->rank) && count_again(&list, result->rank, &result->checked) &&
      memory_suffices(graph_build(&list, &graph), result->rank)) {
    edges_free(&list);
    status = measure(&graph, result, json);
  }
  edges_free(&list);
  graph_free(&graph);
  return status;
}

static int run(void) {
  struct result result = {0};
  struct json json;
  MPI_Comm_rank(MPI_COMM_WORLD, &result.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &result.ranks);
  if (!options_fit(result.rank)) return 2;
  if (!json_open(&json, "triangles", options.json_file)) return 2;
  const int status = run_with_file(&json, &result);
  return json_close(&json, "triangles") ? status : 1;
}

int main(int argc, char** argv) { return program_main(&kProgram, argc, argv, run); }
