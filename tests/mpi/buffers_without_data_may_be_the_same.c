// SPDX-License-Identifier: BSD-3-Clause
//
// A rank passes the same buffer twice, or null, to a collective without data; the other ranks
// pass two buffers. The library accepts such calls. If Manyhands refused them on the one rank, this
// rank would count one collective less than the others, and a later collective would hang.
//
// run: ranks 2
// run: ranks 3
#include "check.h"

enum { MOST_RANKS = 8 };

static const int none[MOST_RANKS], nothing[MOST_RANKS], places[MOST_RANKS];

// A collective that waits for all ranks. The pause before it makes the ranks wait for each other's
// arrival, as they do outside of tight loops.
static void check_that_all_come(const char* after) {
  MPI_Comm twin;
  int sum = 0;
  pass_time(0.002);
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  MPI_Comm_free(&twin);
  pass_time(0.002);
  MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == ranks, "%s: %d", after, sum);
}

static void exchange(int* in, int* out) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Allgather(in, 0, MPI_INT, out, 0, MPI_INT, comm);
  check_that_all_come("allgather");
  MPI_Alltoall(in, 0, MPI_INT, out, 0, MPI_INT, comm);
  check_that_all_come("alltoall");
}

static void exchange_vectors(int* in, int* out) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Datatype types[MOST_RANKS];
  for (int i = 0; i < ranks; ++i) types[i] = MPI_INT;
  MPI_Allgatherv(in, 0, MPI_INT, out, none, places, MPI_INT, comm);
  check_that_all_come("allgatherv");
  MPI_Alltoallv(in, none, places, MPI_INT, out, nothing, places, MPI_INT, comm);
  check_that_all_come("alltoallv");
  MPI_Alltoallw(in, none, places, types, out, nothing, places, types, comm);
  check_that_all_come("alltoallw");
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int in[MOST_RANKS] = {0}, out[MOST_RANKS] = {0};
  for (int other = 0; other < ranks; ++other) {
    exchange(rank == other ? NULL : in, rank == other ? NULL : out);
    exchange(in, rank == other ? in : out);
    exchange_vectors(in, rank == other ? in : out);
  }
  return end();
}
