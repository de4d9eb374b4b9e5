/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank passes a number round the ring in several ways; rank 0 prints "ring N". CALLS in
 * test_front.py lists the calls. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size, sum = 0, got = -1, got_too = -1;
  MPI_Request requests[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Isend(&rank, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&got, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Sendrecv(&rank, 1, MPI_INT, to, 2, &got_too, 1, MPI_INT, from, 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("ring %d\n", got == from && got_too == from ? sum : -1);
  MPI_Finalize();
  return 0;
}
