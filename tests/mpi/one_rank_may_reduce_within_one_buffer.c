// SPDX-License-Identifier: BSD-3-Clause
//
// A rank passes its send buffer as receive buffer, too; the other ranks pass two buffers. Open
// MPI accepts such calls; other libraries refuse. Manyhands must accept what the library accepts,
// because the other ranks wait for the numbers of this rank.
//
// run: ranks 2 not mpich4,mpich5,abi
// run: ranks 3 not mpich4,mpich5,abi
// run: ranks 2 heap not mpich4,mpich5,abi
#include "check.h"

enum { SHORT = 1, LONG = 20000, CALLS = 5 };

static const char* const names[CALLS] = {"allreduce", "reduce_scatter_block", "scan", "exscan",
                                         "alltoall"};

static int make_call(int call, const int* in, int* out, int count, MPI_Comm comm) {
  if (call == 0) return MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
  if (call == 1) return MPI_Reduce_scatter_block(in, out, count, MPI_INT, MPI_SUM, comm);
  if (call == 2) return MPI_Scan(in, out, count, MPI_INT, MPI_SUM, comm);
  if (call == 3) return MPI_Exscan(in, out, count, MPI_INT, MPI_SUM, comm);
  return MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, comm);
}

// The last number that a rank with two buffers gets, if every number of rank r is r + 1.
static int result_of(int call) {
  if (call == 2) return (rank + 1) * (rank + 2) / 2;
  if (call == 3) return rank * (rank + 1) / 2;
  return ranks * (ranks + 1) / 2;
}

static int* numbers(int count) {
  int* made = malloc(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; ++i) made[i] = rank + 1;
  return made;
}

static void check_call(int call, int count, int one) {
  int* in = numbers(count * ranks);
  int* out = rank == one ? in : numbers(count * ranks);
  const bool may_be_fatal = call == 0 && count > 1;  // Open MPI's error is one of MPI_COMM_WORLD
  if (!may_be_fatal && make_call(call, in, in, count, MPI_COMM_SELF) == MPI_SUCCESS) {
    make_call(call, in, out, count, MPI_COMM_WORLD);
    // In an all-to-all, the library itself sends what it has just received.
    const bool defined = !(call == 3 && rank == 0) && call != 4;
    if (defined) CHECK(out[count - 1] == result_of(call), "%s: %d", names[call], out[count - 1]);
  }
  if (out != in) free(out);
  free(in);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int one = 0; one < ranks; ++one) {
    for (int call = 0; call < CALLS; ++call) {
      check_call(call, SHORT, one);
      check_call(call, LONG, one);
    }
  }
  return end();
}
