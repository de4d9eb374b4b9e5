// SPDX-License-Identifier: BSD-3-Clause
//
// A rank in a tight loop of short messages waits inside the library. A large message behind the
// short ones truncates the receive and ends the job, as without Manyhands. An RTS header that
// stayed unnoticed in the buffer would pass for data.
//
// run: ranks 2 fails
#include "check.h"

enum { ROOM = 1000, MANY = 2007 };  // not a multiple of the calls between two checks of the pace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  unsigned char* data = filled(LARGE, 1);
  for (int i = 0; i < MANY; ++i) {
    if (rank == 0) MPI_Send(data, ROOM, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(data, ROOM, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == 0) MPI_Send(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(data, ROOM, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return end();
}
