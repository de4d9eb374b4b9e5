/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 1 computes until the file that the second argument names exists. The other rank waits for
 * rank 1, in a barrier ("barrier") or for a message ("message"). Then each rank prints its sum. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static double compute(const char* until) {
  double sum = 0;
  while (access(until, F_OK) != 0) {
    for (int i = 1; i < 1000000; ++i) sum = sum / 2 + 1.0 / i;
  }
  return sum > 0;
}

int main(int argc, char** argv) {
  int rank;
  double sum = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) sum = compute(argv[2]);
  if (strcmp(argv[1], "barrier") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Send(&sum, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&sum, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  printf("rank %d sum %.0f\n", rank, sum);
  MPI_Finalize();
  return 0;
}
