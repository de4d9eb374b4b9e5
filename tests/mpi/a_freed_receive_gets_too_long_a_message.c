// SPDX-License-Identifier: BSD-3-Clause
//
// A message is too long for a receive whose request was freed. The program gets no error, the send
// completes, and later messages are intact. If nobody answered the RTS header, the send would never
// complete. (test_truncation.py checks that the later messages go eager.)
//
// run: ranks 2
#include "check.h"

enum { ROOM = 100000, LATER = 3 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  unsigned char* data = malloc(LARGE);
  if (rank == 1) {
    MPI_Request request;
    MPI_Irecv(data, ROOM, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    fill(data, LARGE, 0);
    CHECK(MPI_Send(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD) == MPI_SUCCESS, "the send fails");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  unsigned char* later = malloc(LARGE);
  for (int message = 1; message <= LATER; ++message) {
    if (rank == 0) {
      fill(later, LARGE, message);
      MPI_Send(later, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else {
      MPI_Recv(later, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      fill(data, LARGE, message);
      CHECK(memcmp(data, later, LARGE) == 0, "message %d differs", message);
    }
  }
  free(data);
  free(later);
  return end();
}
