// SPDX-License-Identifier: BSD-3-Clause
// Adds up the times of a rank, and estimates its waiting. times.h defines the words.
#include "times.h"

#include <stdlib.h>
#include <string.h>

bool times_create(int steps, struct times* times) {
  *times = (struct times){0};
  times->step_total = calloc((size_t)steps, sizeof(double));
  times->step_mpi = calloc((size_t)steps, sizeof(double));
  if (times->step_total != NULL && times->step_mpi != NULL) return true;
  times_free(times);
  return false;
}

void times_free(struct times* times) {
  free(times->step_total);
  free(times->step_mpi);
  *times = (struct times){0};
}

void times_add(struct times* times, double total, double pack, double mpi) {
  times->step_total[times->steps] = total;
  times->step_mpi[times->steps] = mpi;
  times->steps += 1;
  times->total += total;
  times->pack += pack;
  times->mpi += mpi;
  times->compute += total - pack - mpi;
}

// Finds the least *mpi* time of all ranks in each step, and adds this rank's excess to `wait`. Does
// so for 1024 steps at a time, which avoids a second array with an element for each step.
void times_estimate_wait(struct times* times, MPI_Comm comm) {
  enum { kBlock = 1024 };
  double least[kBlock];
  times->wait = 0.0;
  for (int first = 0; first < times->steps; first += kBlock) {
    const int n = times->steps - first < kBlock ? times->steps - first : kBlock;
    MPI_Allreduce(times->step_mpi + first, least, n, MPI_DOUBLE, MPI_MIN, comm);
    for (int i = 0; i < n; ++i) times->wait += times->step_mpi[first + i] - least[i];
  }
}
