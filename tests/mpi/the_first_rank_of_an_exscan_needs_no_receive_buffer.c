// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 gets nothing from MPI_Exscan, so its receive buffer is not significant. Open MPI accepts
// null, or the send buffer; other libraries refuse. Manyhands must accept what the library accepts,
// because the other ranks wait for the numbers of rank 0.
//
// run: ranks 2 not mpich4,mpich5,abi
// run: ranks 3 not mpich4,mpich5,abi
#include "check.h"

static void scan(const int* in, int* out) {
  int sum = 0;
  MPI_Exscan(in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank > 0) CHECK(*out == rank * (rank + 1) / 2, "the sum is %d", *out);
  pass_time(0.002);
  MPI_Allreduce(in, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == ranks * (ranks + 1) / 2, "the sum of all is %d", sum);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int in = rank + 1, out = 0;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (MPI_Exscan(&in, NULL, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF) != MPI_SUCCESS)
    return skip("the library refuses such buffers");
  scan(&in, rank == 0 ? NULL : &out);
  scan(&in, rank == 0 ? &in : &out);
  if (rank == 0) CHECK(in == 1, "rank 0 got %d", in);
  return end();
}
