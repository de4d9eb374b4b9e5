// SPDX-License-Identifier: BSD-3-Clause
//
// Without an error handler of its own, a program that truncates a large message is aborted.
//
// run: ranks 2 fails
#include "check.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  unsigned char* data = filled(LARGE, 1);
  if (rank == 0) MPI_Send(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(data, 1000, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return end();
}
