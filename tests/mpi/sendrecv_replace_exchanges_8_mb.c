// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Sendrecv_replace and MPI_Sendrecv of 8 MB around a ring and with the rank itself: each rank
// receives its neighbour's original data. A receive that began before the outgoing data was copied
// would send the new data on.
//
// run: ranks 1
// run: ranks 2
// run: ranks 3
#include "check.h"

enum { BYTES = 8 << 20 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  MPI_Status status;
  unsigned char *data = filled(BYTES, rank), *in = blank(BYTES);
  for (int step = 1; step <= 3; ++step) {
    MPI_Sendrecv_replace(data, BYTES, MPI_BYTE, next, step, last, step, MPI_COMM_WORLD, &status);
    check_status(&status, last, step, BYTES);
    check_bytes(data, BYTES, ((rank - step) % ranks + ranks) % ranks, "after a replacing step");
  }
  fill(data, BYTES, rank);
  MPI_Sendrecv(data, BYTES, MPI_BYTE, next, 7, in, BYTES, MPI_BYTE, last, MPI_ANY_TAG,
               MPI_COMM_WORLD, &status);
  check_status(&status, last, 7, BYTES);
  check_bytes(in, BYTES, last, "after MPI_Sendrecv");
  MPI_Sendrecv_replace(data, BYTES / 8, MPI_DOUBLE, rank, 9, rank, 9, MPI_COMM_WORLD, &status);
  check_status(&status, rank, 9, BYTES);
  check_bytes(data, BYTES, rank, "after an exchange with oneself");
  return end();
}
