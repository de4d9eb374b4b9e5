// SPDX-License-Identifier: BSD-3-Clause
//
// Long floating-point sums of three ranks, more often than Manyhands needs before it tests the
// order in which the library adds. A test of a sum of this length would take twice its memory, and
// the time of 16 sums.
//
// run: ranks 3 heap not mpich4,mpich5,abi
#include <sys/resource.h>

#include "check.h"

enum { COUNT = (16 << 20) / (int)sizeof(float) + 1, BEFORE = 60, CALLS = 70 };

static long most_memory(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  float* data = malloc(sizeof(float) * COUNT);
  for (int i = 0; i < COUNT; ++i) data[i] = 0;
  long before = 0;
  for (int call = 0; call < CALLS; ++call) {
    MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (call == BEFORE) before = most_memory();
  }
  const long taken = most_memory() - before;
  CHECK(taken < COUNT, "%ld bytes", taken);
  free(data);
  return end();
}
