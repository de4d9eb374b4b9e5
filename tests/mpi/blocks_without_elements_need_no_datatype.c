// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 exchanges a number with every other rank by MPI_Alltoallw. The other ranks have nothing
// for each other, and name MPI_DATATYPE_NULL as the type of these blocks. MPICH accepts such calls;
// Open MPI refuses. Manyhands must accept what the library accepts, because rank 0 waits for the
// numbers.
//
// run: ranks 3 not openmpi4,openmpi5
#include "check.h"

enum { MOST_RANKS = 8, TURNS = 3 };

static void exchange(int turn) {
  int counts[MOST_RANKS], places[MOST_RANKS], in[MOST_RANKS], out[MOST_RANKS] = {0};
  MPI_Datatype types[MOST_RANKS];
  for (int peer = 0; peer < ranks; ++peer) {
    counts[peer] = (rank == 0 || peer == 0) && peer != rank;
    types[peer] = rank == 0 || peer == 0 || peer == rank ? MPI_INT : MPI_DATATYPE_NULL;
    places[peer] = peer * (int)sizeof *in;
    in[peer] = rank * 100 + peer + turn;
  }
  MPI_Alltoallw(in, counts, places, types, out, counts, places, types, MPI_COMM_WORLD);
  for (int peer = 0; peer < ranks; ++peer) {
    const int wanted = counts[peer] != 0 ? peer * 100 + rank + turn : 0;
    CHECK(out[peer] == wanted, "rank %d gave %d, not %d", peer, out[peer], wanted);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int turn = 0; turn < TURNS; ++turn) {
    exchange(turn);
    pass_time(0.002);
  }
  return end();
}
