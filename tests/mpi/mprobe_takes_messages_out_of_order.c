// SPDX-License-Identifier: BSD-3-Clause
//
// Large messages that MPI_Mprobe has matched are received in the reverse order by MPI_Imrecv.
// MPI_Recv takes the other messages of the same envelope between the probes. Each handle must keep
// its own RTS header, or the data of two messages would be swapped.
//
// run: ranks 2
// run: ranks 2 helped MH_MEMORY=none
// run: ranks 2 helped MH_FAKE_NODES=2
#include "check.h"

enum { MESSAGES = 6 };

static void receive_all(void) {
  MPI_Message messages[MESSAGES];
  MPI_Request requests[MESSAGES];
  MPI_Status status;
  unsigned char* data[MESSAGES];
  for (int i = 0; i < MESSAGES; ++i) {
    data[i] = blank(LARGE);
    if (i % 2 == 0) MPI_Mprobe(0, TAG, MPI_COMM_WORLD, &messages[i], &status);
    if (i % 2 == 1) MPI_Recv(data[i], LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
    check_status(&status, 0, TAG, LARGE - i);
  }
  for (int i = MESSAGES - 2; i >= 0; i -= 2) {
    MPI_Imrecv(data[i], LARGE, MPI_BYTE, &messages[i], &requests[i]);
  }
  for (int i = 0; i < MESSAGES; i += 2) {
    MPI_Wait(&requests[i], &status);
    check_status(&status, 0, TAG, LARGE - i);
  }
  for (int i = 0; i < MESSAGES; ++i) {
    check_bytes(data[i], (size_t)(LARGE - i), i, "a matched message");
    free(data[i]);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  if (rank == 0) {
    MPI_Request requests[MESSAGES];
    unsigned char* data[MESSAGES];
    for (int i = 0; i < MESSAGES; ++i) {
      data[i] = filled(LARGE, i);
      MPI_Isend(data[i], LARGE - i, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; ++i) free(data[i]);
  }
  if (rank == 1) receive_all();
  return end();
}
