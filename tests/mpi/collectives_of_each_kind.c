// SPDX-License-Identifier: BSD-3-Clause
//
// Makes fifteen collectives with integers, BYTES bytes a rank, ROUNDS times each, and checks the
// results. A rank that read a peer's staged bytes or buffer too early or too late would get a wrong
// result. The data are in memory of malloc, or with ON_STACK on the stack, which no other rank
// maps.
//
// run: ranks 2
// run: ranks 3 BYTES=2000
// run: ranks 2 heap BYTES=65536
#include "check.h"

enum { MOST_RANKS = 8 };

static int number_of(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

static void carry_out_vectors(int* in, int* out, int count) {
  const int last = count - 1;
  int counts[MOST_RANKS], places[MOST_RANKS], bytes[MOST_RANKS];
  MPI_Datatype types[MOST_RANKS];
  for (int r = 0; r < ranks; ++r) {
    counts[r] = count;
    places[r] = (ranks - 1 - r) * count;
    bytes[r] = places[r] * (int)sizeof(int);
    types[r] = MPI_INT;
  }
  for (int i = 0; i < count * ranks; ++i) in[i] = rank + 1;
  MPI_Gatherv(in, count, MPI_INT, out, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
  for (int r = 0; rank == 0 && r < ranks; ++r) CHECK(out[places[r] + last] == r + 1, "gatherv");
  MPI_Scatterv(in, counts, places, MPI_INT, out, count, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(out[last] == 1, "scatterv gave %d", out[last]);
  MPI_Allgatherv(in, count, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) CHECK(out[places[r] + last] == r + 1, "allgatherv");
  MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) CHECK(out[places[r] + last] == r + 1, "alltoallv");
  MPI_Alltoallw(in, counts, bytes, types, out, counts, bytes, types, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) CHECK(out[places[r] + last] == r + 1, "alltoallw");
}

static void carry_out(int* in, int* out, int count) {
  const int last = count - 1;
  const int sum = ranks * (ranks + 1) / 2;
  for (int i = 0; i < count * ranks; ++i) in[i] = rank + 1;
  MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(out[0] == sum && out[last] == sum, "allreduce gave %d", out[last]);
  MPI_Reduce(in, out, count, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) CHECK(out[last] == ranks, "reduce gave %d", out[last]);
  MPI_Reduce_scatter_block(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(out[last] == sum, "reduce_scatter_block gave %d", out[last]);
  MPI_Scan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(out[last] == (rank + 1) * (rank + 2) / 2, "scan gave %d", out[last]);
  MPI_Exscan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank > 0) CHECK(out[last] == rank * (rank + 1) / 2, "exscan gave %d", out[last]);
  MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) CHECK(out[r * count + last] == r + 1, "allgather");
  MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) CHECK(out[r * count + last] == r + 1, "alltoall");
  MPI_Gather(in, count, MPI_INT, out, count, MPI_INT, 0, MPI_COMM_WORLD);
  for (int r = 0; rank == 0 && r < ranks; ++r) CHECK(out[r * count + last] == r + 1, "gather");
  MPI_Scatter(in, count, MPI_INT, out, count, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(out[last] == 1, "scatter gave %d", out[last]);
  MPI_Bcast(in, count, MPI_INT, ranks - 1, MPI_COMM_WORLD);
  CHECK(in[0] == ranks && in[last] == ranks, "bcast gave %d", in[last]);
  carry_out_vectors(in, out, count);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int count = number_of("BYTES", 8) / (int)sizeof(int);
  const size_t room = (size_t)count * (size_t)ranks * sizeof(int);
  int* in = malloc(room);
  int* out = malloc(room);
  const int rounds = number_of("ROUNDS", 20);
  for (int round = 0; round < rounds; ++round) {
    if (getenv("ON_STACK") != NULL) {
      int stack_in[count * ranks], stack_out[count * ranks];
      carry_out(stack_in, stack_out, count);
    } else {
      carry_out(in, out, count);
    }
  }
  free(in);
  free(out);
  return end();
}
