// SPDX-License-Identifier: BSD-3-Clause
//
// Large persistent sends and receives, started repeatedly, send the contents of the buffer at each
// start. The requests stay valid from start to start. An inactive request completes at once, with
// an empty status. A library that kept the slot or the data of the last start would send old bytes.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 4
// run: ranks 4 helped MH_FAKE_NODES=2
#include "check.h"

enum { REPEATS = 8, SIZES = 3 };
static const int sizes[SIZES] = {LARGE, THRESHOLD, 100};

static void check_inactive(MPI_Request* request) {
  MPI_Status status;
  int flag = 0, count = -1;
  MPI_Test(request, &flag, &status);
  MPI_Get_count(&status, MPI_BYTE, &count);
  CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG && count == 0,
        "an inactive request: flag %d source %d tag %d count %d", flag, status.MPI_SOURCE,
        status.MPI_TAG, count);
  CHECK(*request != MPI_REQUEST_NULL, "an inactive request is gone");
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  MPI_Request requests[2 * SIZES];
  unsigned char *in[SIZES], *out[SIZES];
  for (int i = 0; i < SIZES; ++i) {
    in[i] = blank((size_t)sizes[i]);
    out[i] = blank((size_t)sizes[i]);
    MPI_Recv_init(in[i], sizes[i], MPI_BYTE, last, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Send_init(out[i], sizes[i], MPI_BYTE, next, i, MPI_COMM_WORLD, &requests[SIZES + i]);
  }
  for (int repeat = 0; repeat < REPEATS; ++repeat) {
    MPI_Status statuses[2 * SIZES];
    for (int i = 0; i < SIZES; ++i) {
      memset(in[i], 0xee, (size_t)sizes[i]);
      fill(out[i], (size_t)sizes[i], 1000 * rank + 10 * repeat + i);
    }
    if (repeat % 2 == 0) {
      MPI_Startall(2 * SIZES, requests);
    } else {
      for (int i = 0; i < 2 * SIZES; ++i) MPI_Start(&requests[i]);
    }
    MPI_Waitall(2 * SIZES, requests, statuses);
    for (int i = 0; i < SIZES; ++i) {
      check_status(&statuses[i], last, i, sizes[i]);
      check_bytes(in[i], (size_t)sizes[i], 1000 * last + 10 * repeat + i, "a persistent message");
      check_inactive(&requests[i]);
      check_inactive(&requests[SIZES + i]);
    }
  }
  for (int i = 0; i < 2 * SIZES; ++i) MPI_Request_free(&requests[i]);
  return end();
}
