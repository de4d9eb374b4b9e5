// SPDX-License-Identifier: BSD-3-Clause
// Loops of ranks with unequal work, from the start of the first rank to the end of the last.
//
// The triangular loop of MPI Workshare: row i costs i steps, rows are dealt out in equal numbers,
// so the last rank has the most to do. The ideal is the mean of the ranks' own times, which the
// plain arm shows; with --balanced every rank has the same rows and there is nothing to gain. Sums
// are checked. --empty times a loop that is too short for anybody: its start, and a chunk.
//   --micros LIST  of the longest rank's loop (500,2000,20000)   --chunk N (8)
//   --balanced     --empty     --repeat N (40)
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"

enum { kWarmUps = 3, kSteps = 200000, kStarts = 20000, kChunks = 100 };

struct options {
  struct sizes micros;
  int chunk;
  int repeat;
  bool balanced;
  bool empty;
};

struct rows {
  long first;
  long end;
};

static int g_rank, g_ranks;

// A chain that no compiler shortens; its value depends on every step.
static double row(long steps) {
  double x = 1;
  for (long i = 0; i < steps; i++) x = x * 0.999999 + 1e-3;
  return x;
}

static double run_rows(struct rows mine, int chunk) {
  double sum = 0;
#pragma omp parallel for schedule(dynamic, chunk) reduction(+ : sum)
  for (long i = mine.first; i < mine.end; i++) sum += row(i);
  return sum;
}

static double ns_per_step(void) {
  double best = 1e30;
  for (int i = 0; i < 5; i++) {
    const double start = now_ns();
    const double value = row(kSteps);
    const double spent = now_ns() - start;
    if (value > 0 && spent < best) best = spent;
  }
  MPI_Bcast(&best, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return best / kSteps;
}

// So many rows that the longest rank's loop takes `ns`.
static struct rows rows_for(double ns, double step, bool balanced) {
  const double p = g_ranks;
  const double share = balanced ? 2 : 2 * p * p / (2 * p - 1);
  const long all = (long)sqrt(ns / step * share);
  if (balanced) return (struct rows){0, all};
  return (struct rows){all * g_rank / g_ranks, all * (g_rank + 1) / g_ranks};
}

static double reduced(double value, MPI_Op op) {
  double all = 0;
  MPI_Allreduce(&value, &all, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
  return all;
}

// One repetition: wall time of the whole, mean time of the ranks' own parts.
static double repeat_once(struct rows mine, int chunk, double* wall, double* mean) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_ns();
  const double sum = run_rows(mine, chunk);
  const double own = now_ns() - start;
  MPI_Barrier(MPI_COMM_WORLD);
  const double end = now_ns();
  *wall = reduced(end, MPI_MAX) - reduced(start, MPI_MIN);
  *mean = reduced(own, MPI_SUM) / g_ranks;
  return sum;
}

static void print_loop(const char* name, size_t micros, const double* wall, const double* mean,
                       int count) {
  if (g_rank != 0) return;
  printf("{\"kind\": \"loop\", \"name\": \"%s %zu us\", \"ranks\": %d, ", name, micros, g_ranks);
  print_values("mean_ns", wall, count);
  printf(", ");
  print_values("ideal_ns", mean, count);
  printf("}\n");
  fflush(stdout);
}

static void measure(size_t micros, double step, const struct options* o) {
  const struct rows mine = rows_for((double)micros * 1e3, step, o->balanced);
  double* wall = malloc((size_t)o->repeat * sizeof *wall);
  double* mean = malloc((size_t)o->repeat * sizeof *mean);
  if (wall == NULL || mean == NULL) fail("out of memory");
  double expected = 0, unused[2];
  for (long i = mine.first; i < mine.end; i++) expected += row(i);
  for (int i = 0; i < kWarmUps; i++) repeat_once(mine, o->chunk, &unused[0], &unused[1]);
  for (int i = 0; i < o->repeat; i++) {
    const double sum = repeat_once(mine, o->chunk, &wall[i], &mean[i]);
    if (fabs(sum - expected) > 1e-9 * expected) fail("a loop gave a wrong sum");
  }
  print_loop(o->balanced ? "balanced" : "triangle", micros, wall, mean, o->repeat);
  free(mean);
  free(wall);
}

static void print_short(const char* name, const double* each, int count) {
  if (g_rank != 0) return;
  printf("{\"kind\": \"loop\", \"name\": \"%s\", \"ranks\": %d, ", name, g_ranks);
  print_values("mean_ns", each, count);
  printf("}\n");
  fflush(stdout);
}

// On rank 0, while the others wait.
static void measure_empty(const struct options* o) {
  double* start_ns = malloc((size_t)o->repeat * sizeof *start_ns);
  double* chunk_ns = malloc((size_t)o->repeat * sizeof *chunk_ns);
  if (start_ns == NULL || chunk_ns == NULL) fail("out of memory");
  for (int b = 0; b < o->repeat && g_rank == 0; b++) {
    const double begin = now_ns();
    for (int k = 0; k < kStarts; k++) {
#pragma omp parallel for schedule(dynamic)
      for (int i = 0; i < o->chunk; i++) __asm__ volatile("");
    }
    const double middle = now_ns();
    for (int k = 0; k < kStarts; k++) {
#pragma omp parallel for schedule(dynamic)
      for (int i = 0; i < o->chunk + kChunks; i++) __asm__ volatile("");
    }
    const double few = middle - begin, many = now_ns() - middle;
    chunk_ns[b] = (many - few) / kStarts / kChunks;
    start_ns[b] = few / kStarts - o->chunk * chunk_ns[b];
  }
  print_short("start", start_ns, o->repeat);
  print_short("chunk", chunk_ns, o->repeat);
  free(chunk_ns);
  free(start_ns);
  MPI_Barrier(MPI_COMM_WORLD);
}

static struct options parse(int argc, char** argv) {
  static const struct option kLong[] = {{"micros", 1, 0, 'm'}, {"chunk", 1, 0, 'c'},
                                        {"repeat", 1, 0, 'r'}, {"balanced", 0, 0, 'b'},
                                        {"empty", 0, 0, 'e'},  {0, 0, 0, 0}};
  struct options o = {.chunk = 8, .repeat = 40};
  const char* micros = "500,2000,20000";
  for (int option; (option = getopt_long(argc, argv, "", kLong, NULL)) != -1;) {
    if (option == 'm') micros = optarg;
    if (option == 'c') o.chunk = atoi(optarg);
    if (option == 'r') o.repeat = atoi(optarg);
    if (option == 'b') o.balanced = true;
    if (option == 'e') o.empty = true;
    if (option == '?') fail("unknown option; the head of loops.c lists them");
  }
  if (o.chunk < 1 || o.repeat < 1) fail("--chunk and --repeat are at least 1");
  o.micros = parse_sizes(micros);
  return o;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_ranks);
  const struct options o = parse(argc, argv);
  print_config("loops", argc, argv);
  if (o.empty) {
    measure_empty(&o);
  } else {
    const double step = ns_per_step();
    for (int i = 0; i < o.micros.count; i++) measure(o.micros.bytes[i], step, &o);
  }
  MPI_Finalize();
  return 0;
}
