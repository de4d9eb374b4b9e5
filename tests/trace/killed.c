/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 sends 20 messages of 1 MB to rank 1, late each time. Then rank 1 is killed, while rank 0
 * waits for a message from rank 1. Prints nothing; the test reads the trace. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 20, LATE_MS = 2, LONG = 1 << 20 };

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char* data = calloc(1, LONG);
  for (int round = 0; round < ROUNDS; ++round) {
    if (rank == 0) {
      usleep(LATE_MS * 1000);
      MPI_Send(data, LONG, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(data, LONG, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  if (rank == 1) {
    usleep(50000); /* rank 0 has its buffer back, and waits */
    raise(SIGKILL);
  }
  MPI_Recv(data, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
