// SPDX-License-Identifier: BSD-3-Clause
//
// Programs that only poll finish large messages, whichever side starts late, also if they compute
// between the polls. Both sides use MPI_Test, MPI_Testall, MPI_Testany, MPI_Testsome or
// MPI_Request_get_status. If only blocking calls moved data, the program would poll for ever.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 3
#include "check.h"

enum { WAYS = 5, REPEATS = 6 };

static void poll(int way, MPI_Request* request, MPI_Status* status) {
  int flag = 0, index = 0, done = 0;
  while (!flag) {
    switch (way) {
      case 0:
        MPI_Test(request, &flag, status);
        break;
      case 1:
        MPI_Testall(1, request, &flag, status);
        break;
      case 2:
        MPI_Testany(1, request, &index, &flag, status);
        break;
      case 3:
        MPI_Testsome(1, request, &done, &index, status);
        flag = done == 1;
        break;
      default:
        MPI_Request_get_status(*request, &flag, status);
        if (flag) MPI_Wait(request, status);
    }
    if (way % 2 == 0 && !flag) pass_time(2e-5);
  }
  CHECK(*request == MPI_REQUEST_NULL, "way %d: a finished request is not null", way);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int way = 0; way < WAYS; ++way) {
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
      unsigned char *out = filled(LARGE, way * 100 + rank), *in = blank(LARGE);
      MPI_Request sending, receiving;
      MPI_Status status;
      if (repeat % 3 == 1 && rank == 0) pass_time(0.005);
      MPI_Isend(out, LARGE, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &sending);
      if (repeat % 3 == 2 && rank == 0) pass_time(0.005);
      MPI_Irecv(in, LARGE, MPI_BYTE, last, TAG, MPI_COMM_WORLD, &receiving);
      poll(way, &receiving, &status);
      check_status(&status, last, TAG, LARGE);
      check_bytes(in, LARGE, way * 100 + last, "a polled message");
      poll((way + repeat) % WAYS, &sending, &status);
      free(out);
      free(in);
    }
  }
  return end();
}
