// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Isendrecv and MPI_Isendrecv_replace exchange large messages. MPI_Wait or a loop of MPI_Test
// completes the single request that stands for both halves. A completion that knows one half only
// would hang or return too early.
//
// run: ranks 2 not openmpi4
// run: ranks 3 not openmpi4
#include "check.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 8; ++round) {
    unsigned char *data = filled(LARGE, round + 10 * rank), *in = blank(LARGE);
    MPI_Request request;
    int flag = 0;
    bool replace = round % 4 >= 2;
    if (replace) {
      MPI_Isendrecv_replace(data, LARGE, MPI_BYTE, next, TAG, last, TAG, MPI_COMM_WORLD, &request);
    } else {
      MPI_Isendrecv(data, LARGE, MPI_BYTE, next, TAG, in, LARGE, MPI_BYTE, last, TAG,
                    MPI_COMM_WORLD, &request);
    }
    if (round % 2) MPI_Wait(&request, MPI_STATUS_IGNORE);
    while (round % 2 == 0 && !flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    check_bytes(replace ? data : in, LARGE, round + 10 * last, "by MPI_Isendrecv");
    free(in);
    free(data);
  }
  return end();
#else
  return skip("this library has no MPI_Isendrecv");
#endif
}
