/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of known number, size and lateness. Before each call, the other ranks tell rank 1 that they
 * are about to make the call. Rank 1 then sleeps for LATE_MS outside of MPI, and the others wait
 * for it. Rank 0 prints, for each kind of call, how many seconds it was inside of the call and
 * rank 1 outside of MPI. If rank 0 loses its core before a call, these are fewer seconds than rank
 * 1 sleeps, so the test compares the profile with them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, LATE_MS = 5, LONG = 1 << 20, COLUMNS = 64 };
enum { SENDRECV, ALLREDUCE, WAIT, CALLS };

static int rank, ranks, round_now;

/* When this rank entered the call, and when it had last left MPI before, in seconds. */
static double entered[CALLS][ROUNDS], left[CALLS][ROUNDS], left_now;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void enter(int call) {
  left[call][round_now] = left_now;
  entered[call][round_now] = now();
}

static void be_late(void) {
  char ready = 0;
  if (rank != 1) {
    MPI_Send(&ready, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    return;
  }
  for (int other = 1; other < ranks; ++other)
    MPI_Recv(&ready, 1, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  left_now = now();
  usleep(LATE_MS * 1000);
}

static void exchange(char* out, char* in) {
  be_late();
  enter(SENDRECV);
  MPI_Sendrecv(out, LONG, MPI_BYTE, (rank + 1) % ranks, 0, in, LONG, MPI_BYTE,
               (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sum(void) {
  double own = 1, total;
  be_late();
  enter(ALLREDUCE);
  MPI_Allreduce(&own, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Rank 0 receives from rank 1: columns of a matrix, by a request. */
static void receive_columns(double* matrix, MPI_Datatype columns) {
  MPI_Request request;
  be_late();
  enter(WAIT);
  if (rank == 1) MPI_Send(matrix, 1, columns, 0, 1, MPI_COMM_WORLD);
  if (rank != 0) return;
  MPI_Irecv(matrix, 1, columns, 1, 1, MPI_COMM_WORLD, &request);
  enter(WAIT);
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

/* Returns how long this rank was inside of `call` and rank 1 outside of MPI. */
static double waited(int call, double (*late_left)[ROUNDS], double (*late_entered)[ROUNDS]) {
  double seconds = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    double own = entered[call][round], from = late_left[call][round];
    double until = late_entered[call][round];
    if (own > from) from = own;
    if (until > from) seconds += until - from;
  }
  return seconds;
}

/* Rank 0 prints a line of JSON. */
static void tell(void) {
  static double late_left[CALLS][ROUNDS], late_entered[CALLS][ROUNDS];
  const int count = CALLS * ROUNDS;
  if (rank == 1) {
    MPI_Send(left, count, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD);
    MPI_Send(entered, count, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD);
  }
  if (rank != 0) return;
  MPI_Recv(late_left, count, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(late_entered, count, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  printf("{\"Sendrecv\": %.6f, \"Allreduce\": %.6f, \"Wait\": %.6f}\n",
         waited(SENDRECV, late_left, late_entered), waited(ALLREDUCE, late_left, late_entered),
         waited(WAIT, late_left, late_entered));
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
  for (round_now = 0; round_now < ROUNDS; ++round_now) {
    exchange(out, in);
    sum();
    receive_columns(matrix, columns);
    poll(in);
  }
  tell();
  MPI_Type_free(&columns);
  free(matrix);
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
