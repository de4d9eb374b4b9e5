// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Probe, MPI_Iprobe, MPI_Mprobe and MPI_Improbe report the size that the sender sent, also when
// repeated. Large messages and messages of exactly the size of an RTS header share a tag. A probe
// that took an RTS header for the message would report 96 bytes, and the program would allocate too
// little.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 2 helped MH_MEMORY=none
// run: ranks 2 helped MH_FAKE_NODES=2
#include "check.h"

static const int sizes[] = {LARGE,         96, 96, LARGE + 8, 192, THRESHOLD,
                            THRESHOLD - 1, 0,  96, LARGE,     95};
enum { SIZES = sizeof sizes / sizeof sizes[0], WAYS = 5 };

static void take(int way, int bytes, int key) {
  MPI_Status status;
  MPI_Message message;
  unsigned char* data = blank(LARGE + 100);
  int flag = 0, source = way % 2 ? MPI_ANY_SOURCE : 0, tag = way % 3 ? MPI_ANY_TAG : TAG;
  MPI_Comm comm = MPI_COMM_WORLD;
  if (way == 0) MPI_Probe(source, tag, comm, &status);
  while (way == 1 && !flag) MPI_Iprobe(source, tag, comm, &flag, &status);
  if (way == 2) MPI_Mprobe(source, tag, comm, &message, &status);
  while (way == 3 && !flag) MPI_Improbe(source, tag, comm, &flag, &message, &status);
  if (way == 4) {
    MPI_Probe(source, tag, comm, &status);
    check_status(&status, 0, TAG, bytes);
    while (!flag) MPI_Iprobe(source, tag, comm, &flag, &status);
  }
  check_status(&status, 0, TAG, bytes);
  if (way == 2 || way == 3) {
    MPI_Mrecv(data, bytes, MPI_BYTE, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL, "the message handle stays");
  } else {
    MPI_Recv(data, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
  }
  check_status(&status, 0, TAG, bytes);
  check_bytes(data, (size_t)bytes, key, "a probed message");
  check_blank(data, (size_t)bytes, LARGE + 100, "behind a probed message");
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int way = 0; way < WAYS; ++way) {
    MPI_Request requests[SIZES];
    unsigned char* data[SIZES];
    for (int i = 0; i < SIZES && rank == 0; ++i) {
      data[i] = filled((size_t)sizes[i], 10 * way + i);
      MPI_Isend(data[i], sizes[i], MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < SIZES && rank == 1; ++i) take(way, sizes[i], 10 * way + i);
    if (rank == 0) MPI_Waitall(SIZES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < SIZES && rank == 0; ++i) free(data[i]);
  }
  return end();
}
