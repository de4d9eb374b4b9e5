// SPDX-License-Identifier: BSD-3-Clause
// Measures the rate of memcpy for the report of a stencil run, as the median of several
// repetitions. While rank 0 copies alone, the other ranks wait in MPI_Reduce or MPI_Barrier.
#include "membench.h"

#include <stdlib.h>
#include <string.h>

enum { kRepetitions = 9, kCopies = 4 };

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double copy_seconds(char* to, const char* from, size_t bytes) {
  const double start = MPI_Wtime();
  for (int i = 0; i < kCopies; ++i) {
    memcpy(to, from, bytes);
    to[(size_t)i] = (char)(to[(size_t)i] + 1);  // keeps the compiler from merging copies
  }
  return (MPI_Wtime() - start) / kCopies;
}

// Collective. Returns the median rate of memcpy over the repetitions on rank 0, in gigabytes (10^9
// bytes) a second, and 0 on other ranks. With `together` all ranks copy at the same time, and the
// rate is the sum of their bytes over the slowest rank's time; otherwise rank 0 alone copies.
static double bandwidth(MPI_Comm comm, bool together, char* to, const char* from, size_t bytes) {
  int rank, ranks;
  double seconds[kRepetitions];
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  for (int i = 0; i < kRepetitions; ++i) {
    MPI_Barrier(comm);
    double mine = together || rank == 0 ? copy_seconds(to, from, bytes) : 0.0;
    MPI_Reduce(&mine, &seconds[i], 1, MPI_DOUBLE, MPI_MAX, 0, comm);
  }
  if (rank != 0) return 0.0;
  qsort(seconds, kRepetitions, sizeof seconds[0], by_value);
  return (together ? ranks : 1) * (double)bytes / seconds[kRepetitions / 2] / 1e9;
}

bool membench_run(MPI_Comm comm, int mib, struct membench* result) {
  *result = (struct membench){.mib = mib};
  const size_t bytes = (size_t)mib << 20;
  char* to = malloc(bytes);
  char* from = malloc(bytes);
  int ok = to != NULL && from != NULL;
  MPI_Allreduce(MPI_IN_PLACE, &ok, 1, MPI_INT, MPI_MIN, comm);
  if (ok) {
    memset(to, 1, bytes);
    memset(from, 2, bytes);
    result->one_gb_per_s = bandwidth(comm, false, to, from, bytes);
    result->together_gb_per_s = bandwidth(comm, true, to, from, bytes);
  }
  free(to);
  free(from);
  return ok != 0;
}
