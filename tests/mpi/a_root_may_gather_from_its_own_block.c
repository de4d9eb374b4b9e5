// SPDX-License-Identifier: BSD-3-Clause
//
// The root of a gather sends from its own block of the receive buffer. The root of a scatter
// receives into its own block of the send buffer. Open MPI accepts such calls; other libraries
// refuse. Manyhands must accept what the library accepts, and the block must keep its numbers,
// although its source and its destination are the same memory.
//
// run: ranks 2 not mpich4,mpich5,abi
// run: ranks 3 not mpich4,mpich5,abi
// run: ranks 2 heap not mpich4,mpich5,abi
#include "check.h"

enum { SHORT = 10, LONG = 20000, MOST_RANKS = 8 };

static bool is_accepted(void) {
  int one = 1;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  return MPI_Gather(&one, 1, MPI_INT, &one, 1, MPI_INT, 0, MPI_COMM_SELF) == MPI_SUCCESS;
}

static void gather(int count, int* all, int* own) {
  for (int root = 0; root < ranks; ++root) {
    int* in = rank == root ? all + root * count : own;
    in[count - 1] = rank;
    MPI_Gather(in, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; rank == root && i < ranks; ++i)
      CHECK(all[i * count + count - 1] == i, "rank %d gave %d", i, all[i * count + count - 1]);
  }
}

static void gather_vectors(int count, int* all, int* own) {
  int counts[MOST_RANKS], places[MOST_RANKS];
  for (int i = 0; i < ranks; ++i) {
    counts[i] = count;
    places[i] = i * count;
  }
  int* in = rank == 0 ? all : own;
  in[0] = rank + 5;
  MPI_Gatherv(in, count, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; rank == 0 && i < ranks; ++i)
    CHECK(all[i * count] == i + 5, "rank %d gave %d", i, all[i * count]);
  int* out = rank == 0 ? all : own;
  MPI_Scatterv(all, counts, places, MPI_INT, out, count, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(out[0] == rank + 5, "the root scattered %d", out[0]);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  if (!is_accepted()) return skip("the library refuses such buffers");
  int* all = malloc(sizeof(int) * LONG * (size_t)ranks);
  int* own = malloc(sizeof(int) * LONG);
  gather(SHORT, all, own);
  gather(LONG, all, own);
  gather_vectors(SHORT, all, own);
  gather_vectors(LONG, all, own);
  free(all);
  free(own);
  return end();
}
