// SPDX-License-Identifier: BSD-3-Clause
// Gathers the times of all ranks and prints them. See stamps.h. The gathered array `all` has the
// repetitions of rank 0, then those of rank 1, and so on; each rank has `count` of them.
#include "stamps.h"

#include <stdio.h>
#include <stdlib.h>

#include "measure.h"

enum { kStampDoubles = sizeof(struct stamps) / sizeof(double) };

// Returns the time in ns, from the first rank's start to the last rank's end, of one repetition.
// `all` points to this repetition of rank 0.
static double wall_of(const struct stamps* all, int ranks, int count) {
  double start = all->start, end = all->end;
  for (int rank = 1; rank < ranks; rank++) {
    const struct stamps* stamps = &all[rank * count];
    if (stamps->start < start) start = stamps->start;
    if (stamps->end > end) end = stamps->end;
  }
  return end - start;
}

static double loop_of(const struct stamps* stamps) { return stamps->loop_end - stamps->start; }

static double mean_of(const struct stamps* all, int ranks, int count) {
  double sum = 0;
  for (int rank = 0; rank < ranks; rank++) sum += loop_of(&all[rank * count]);
  return sum / ranks;
}

static void print_ranks(const struct stamps* all, double* values, int ranks, int count) {
  printf(", \"rank_ns\": {");
  for (int rank = 0; rank < ranks; rank++) {
    char name[16];
    for (int i = 0; i < count; i++) values[i] = loop_of(&all[rank * count + i]);
    snprintf(name, sizeof name, "%d", rank);
    printf(rank == 0 ? "" : ", ");
    print_values(name, values, count);
  }
  printf("}");
}

static void print_line(const char* name, const struct stamps* all, int ranks, int count) {
  double* values = malloc((size_t)count * sizeof *values);
  if (values == NULL) fail("out of memory");
  printf("{\"kind\": \"loop\", \"name\": \"%s\", \"ranks\": %d, ", name, ranks);
  for (int i = 0; i < count; i++) values[i] = wall_of(&all[i], ranks, count);
  print_values("mean_ns", values, count);
  for (int i = 0; i < count; i++) values[i] = mean_of(&all[i], ranks, count);
  printf(", ");
  print_values("ideal_ns", values, count);
  print_ranks(all, values, ranks, count);
  printf("}\n");
  fflush(stdout);
  free(values);
}

void print_loop(const char* name, const struct stamps* mine, int count) {
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  struct stamps* all = malloc((size_t)(rank == 0 ? ranks : 1) * (size_t)count * sizeof *all);
  if (all == NULL) fail("out of memory");
  const int doubles = count * kStampDoubles;
  MPI_Gather(mine, doubles, MPI_DOUBLE, all, doubles, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) print_line(name, all, ranks, count);
  free(all);
}
