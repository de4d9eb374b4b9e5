// SPDX-License-Identifier: BSD-3-Clause
//
// A program without its own error handler is aborted when it truncates a large message. A receive
// that returned would leave the program with an RTS header as data.
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
