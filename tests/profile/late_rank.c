/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of known number, size and lateness. Before each call, the other ranks tell rank 1 that they
 * are about to make the call. Rank 1 then sleeps for LATE_MS outside of MPI, and the others wait
 * for it. Prints nothing; the test reads the profile. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 20, LATE_MS = 5, LONG = 1 << 20, COLUMNS = 64 };

static int rank, ranks;

static void be_late(void) {
  char ready = 0;
  if (rank != 1) {
    MPI_Send(&ready, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    return;
  }
  for (int other = 1; other < ranks; ++other)
    MPI_Recv(&ready, 1, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  usleep(LATE_MS * 1000);
}

static void exchange(char* out, char* in) {
  be_late();
  MPI_Sendrecv(out, LONG, MPI_BYTE, (rank + 1) % ranks, 0, in, LONG, MPI_BYTE,
               (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sum(void) {
  double own = 1, total;
  be_late();
  MPI_Allreduce(&own, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Rank 0 receives from rank 1: columns of a matrix, by a request. */
static void receive_columns(double* matrix, MPI_Datatype columns) {
  MPI_Request request;
  be_late();
  if (rank == 1) MPI_Send(matrix, 1, columns, 0, 1, MPI_COMM_WORLD);
  if (rank != 0) return;
  MPI_Irecv(matrix, 1, columns, 1, 1, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Rank 0 polls for a message of rank 1. */
static void poll(char* buffer) {
  be_late();
  if (rank == 1) MPI_Send(buffer, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
  if (rank != 0) return;
  int found = 0;
  while (!found) MPI_Iprobe(1, 2, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
  MPI_Recv(buffer, 8, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  MPI_Datatype columns;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char *out = calloc(1, LONG), *in = calloc(1, LONG);
  double* matrix = calloc(2 * COLUMNS * COLUMNS, sizeof *matrix);
  MPI_Type_vector(COLUMNS, COLUMNS, 2 * COLUMNS, MPI_DOUBLE, &columns);
  MPI_Type_commit(&columns);
  for (int round = 0; round < ROUNDS; ++round) {
    exchange(out, in);
    sum();
    receive_columns(matrix, columns);
    poll(in);
  }
  MPI_Type_free(&columns);
  free(matrix);
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
