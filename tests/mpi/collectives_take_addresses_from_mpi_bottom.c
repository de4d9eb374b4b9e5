// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives take MPI_BOTTOM and a type with the absolute addresses of two blocks, short and long.
// If MPI_BOTTOM counted as a null pointer, or an address as an offset, the call would fail or
// crash.
//
// run: ranks 2
// run: ranks 3
// run: ranks 2 heap
#include "check.h"

enum { MOST_RANKS = 8 };

static int *first, *second, *plain;
static int length;
static MPI_Datatype both;
static const MPI_Comm comm = MPI_COMM_WORLD;

static void set(int value) {
  for (int i = 0; i < length; ++i) first[i] = second[i] = value;
}
static void check_both(int value, const char* call) {
  CHECK(first[length - 1] == value && second[length - 1] == value, "%s gave %d and %d", call,
        first[length - 1], second[length - 1]);
}
static void check_plain(const char* call) {
  for (int r = 0; r < ranks; ++r)
    CHECK(plain[(2 * r + 2) * length - 1] == r + 1, "%s: rank %d gave %d", call, r,
          plain[(2 * r + 2) * length - 1]);
}
static void set_plain(void) {
  for (int i = 0; i < 2 * length * ranks; ++i) plain[i] = rank + 1;
}

static void gather(void) {
  set(rank + 1);
  MPI_Gather(MPI_BOTTOM, 1, both, plain, 2 * length, MPI_INT, 0, comm);
  if (rank == 0) check_plain("gather");
  set_plain();
  MPI_Scatter(plain, 2 * length, MPI_INT, MPI_BOTTOM, 1, both, 0, comm);
  check_both(1, "scatter");
  set(rank + 1);
  MPI_Allgather(MPI_BOTTOM, 1, both, plain, 2 * length, MPI_INT, comm);
  check_plain("allgather");
}

static void gather_vectors(void) {
  int counts[MOST_RANKS], places[MOST_RANKS], bytes[MOST_RANKS], one[MOST_RANKS], none[MOST_RANKS];
  MPI_Datatype pairs[MOST_RANKS], numbers[MOST_RANKS];
  for (int r = 0; r < ranks; ++r) {
    counts[r] = 2 * length;
    places[r] = r * counts[r];
    bytes[r] = places[r] * (int)sizeof(int);
    one[r] = 1;
    none[r] = 0;
    pairs[r] = both;
    numbers[r] = MPI_INT;
  }
  set(rank + 1);
  MPI_Gatherv(MPI_BOTTOM, 1, both, plain, counts, places, MPI_INT, 0, comm);
  if (rank == 0) check_plain("gatherv");
  MPI_Allgatherv(MPI_BOTTOM, 1, both, plain, counts, places, MPI_INT, comm);
  check_plain("allgatherv");
  MPI_Alltoallw(MPI_BOTTOM, one, none, pairs, plain, counts, bytes, numbers, comm);
  check_plain("alltoallw");
  set_plain();
  MPI_Scatterv(plain, counts, places, MPI_INT, MPI_BOTTOM, 1, both, 0, comm);
  check_both(1, "scatterv");
}

static void all(int ints_of_a_block) {
  length = ints_of_a_block;
  first = calloc((size_t)length, sizeof(int));
  second = calloc((size_t)length, sizeof(int));
  plain = malloc(sizeof(int) * 2 * (size_t)(length * ranks));
  const int lengths[] = {length, length};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT};
  MPI_Aint places[2];
  MPI_Get_address(first, &places[0]);
  MPI_Get_address(second, &places[1]);
  MPI_Type_create_struct(2, lengths, places, types, &both);
  MPI_Type_commit(&both);
  for (int root = 0; root < ranks; ++root) {
    set(rank + 1);
    MPI_Bcast(MPI_BOTTOM, 1, both, root, comm);
    check_both(root + 1, "broadcast");
  }
  gather();
  gather_vectors();
  MPI_Type_free(&both);
  free(first);
  free(second);
  free(plain);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  all(1);
  all(500);
  all(30000);
  return end();
}
