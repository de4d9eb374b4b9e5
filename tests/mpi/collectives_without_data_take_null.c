// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives without data at any rank accept null for every buffer. An address that is computed or
// published without a look at the count would crash the program or fail the call.
//
// run: ranks 2
// run: ranks 3
#include "check.h"

enum { MOST_RANKS = 8 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const MPI_Comm comm = MPI_COMM_WORLD;
  const MPI_Datatype type = MPI_INT;
  const int none[MOST_RANKS] = {0};
  MPI_Datatype types[MOST_RANKS];
  for (int i = 0; i < MOST_RANKS; ++i) types[i] = type;
  for (int root = 0; root < ranks; ++root) {
    MPI_Bcast(NULL, 0, type, root, comm);
    MPI_Gather(NULL, 0, type, NULL, 0, type, root, comm);
    MPI_Scatter(NULL, 0, type, NULL, 0, type, root, comm);
    MPI_Gatherv(NULL, 0, type, NULL, none, none, type, root, comm);
    MPI_Scatterv(NULL, none, none, type, NULL, 0, type, root, comm);
  }
  MPI_Allgather(NULL, 0, type, NULL, 0, type, comm);
  MPI_Allgatherv(NULL, 0, type, NULL, none, none, type, comm);
  MPI_Alltoall(NULL, 0, type, NULL, 0, type, comm);
  MPI_Alltoallv(NULL, none, none, type, NULL, none, none, type, comm);
  MPI_Alltoallw(NULL, none, none, types, NULL, none, none, types, comm);
  return end();
}
