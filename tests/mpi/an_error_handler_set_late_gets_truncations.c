// SPDX-License-Identifier: BSD-3-Clause
//
// The error handler is MPI_ERRORS_ARE_FATAL when short receives are started, and MPI_ERRORS_RETURN
// when they complete. The truncation of a large message is returned as an error, and its sender
// finishes. If Manyhands used the handler from the start of the receive, the job would end.
//
// run: ranks 2
#include "check.h"

enum { ROOM = 1000, SHORTS = 3 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  unsigned char* data = filled(LARGE, 1);
  if (rank == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < SHORTS; ++i) {
      MPI_Send(data, i == 1 ? LARGE : ROOM, MPI_BYTE, 1, i, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return end();
  }
  static unsigned char in[SHORTS][ROOM];
  MPI_Request requests[SHORTS];
  for (int i = 0; i < SHORTS; ++i) {
    MPI_Irecv(in[i], ROOM, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < SHORTS; ++i) {
    int code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    int expected = i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    CHECK(class_of(code) == expected, "receive %d: error %d", i, code);
    if (i != 1) check_bytes(in[i], ROOM, 1, "a short message");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return end();
}
