// SPDX-License-Identifier: BSD-3-Clause
//
// A receive without a message can be cancelled and leaves its buffer unchanged. A large send
// without a receive is either cancelled and never arrives, or not cancelled and arrives intact. If
// MPI_Test_cancelled did not tell which, the receiver would wait for ever or get the wrong message.
// MPICH cancels such a send.
//
// run: ranks 2
// run: ranks 2 helped MH_MEMORY=none
// run: ranks 2 helped MH_FAKE_NODES=2
#include "check.h"

enum { BIG = 2000000 };

static void cancel_receive(void) {
  unsigned char* data = blank(BIG);
  MPI_Request request;
  MPI_Status status;
  int cancelled = 0;
  MPI_Irecv(data, BIG, MPI_BYTE, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled, "an unmatched receive is not cancelled");
  check_blank(data, 0, BIG, "a cancelled receive");
  free(data);
}

static int cancel_send(unsigned char* data) {
  MPI_Request request;
  MPI_Status status;
  int cancelled = 0;
  MPI_Isend(data, BIG, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Barrier(MPI_COMM_WORLD);  // the receiver has not posted a receive yet
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  return cancelled;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  cancel_receive();
  for (int round = 0; round < 3; ++round) {
    unsigned char* data = filled(BIG, round);
    int cancelled = 0;
    MPI_Status status;
    if (rank == 0) {
      cancelled = cancel_send(data);
      memset(data, 0, cancelled ? BIG : 0);
      MPI_Send(&cancelled, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
      fill(data, BIG, 100 + round);
      MPI_Send(data, BIG, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else {
      unsigned char* in = blank(BIG);
      MPI_Request request;
      MPI_Barrier(MPI_COMM_WORLD);
      // The wait for a send that was not cancelled may last until its receive is posted.
      MPI_Irecv(&cancelled, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
      MPI_Recv(in, BIG, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      check_bytes(in, BIG, cancelled ? 100 + round : round, "the first message to arrive");
      if (!cancelled) {
        MPI_Recv(in, BIG, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
        check_bytes(in, BIG, 100 + round, "the second message to arrive");
      }
      free(in);
    }
    free(data);
  }
  return end();
}
