// SPDX-License-Identifier: BSD-3-Clause
//
// After MPI_Request_free on an active large send or receive, the transfer still completes, and its
// peer does not wait for ever.
//
// run: ranks 2
#include "check.h"

enum { ROUNDS = 6 };

static void freed_send(int round) {
  unsigned char* data = rank == 0 ? filled(LARGE, round) : blank(LARGE);
  MPI_Request request;
  char token = 0;
  if (rank == 0) {
    MPI_Isend(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL, "a freed request is not null");
    MPI_Recv(&token, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    if (round % 2) pass_time(0.01);
    MPI_Recv(data, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_bytes(data, LARGE, round, "sent with a freed request");
    MPI_Send(&token, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
  }
  free(data);
}

// Rank 1 frees the request of a large receive. Two events then show that the message has arrived:
// the data is in the buffer, and the synchronous send of rank 0 has returned, so that its token
// arrives.
static void freed_receive(int round) {
  unsigned char* data = rank == 0 ? filled(LARGE, round) : blank(LARGE);
  MPI_Request request;
  char token = 0;
  if (rank == 0) {
    MPI_Recv(&token, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Ssend(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    MPI_Send(&token, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
  } else {
    MPI_Irecv(data, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Send(&token, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    // A synchronous send ends when its receive has started; the data may take longer, so the
    // receiver looks at its buffer for up to 10 s.
    double end = MPI_Wtime() + 10;
    int flag;
    while (data[LARGE - 1] != byte_of(round, LARGE - 1) || data[0] != byte_of(round, 0) ||
           data[LARGE / 2] != byte_of(round, LARGE / 2)) {
      CHECK(MPI_Wtime() < end, "the message of a freed receive does not arrive");
      MPI_Iprobe(0, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    pass_time(0.02);
    MPI_Iprobe(0, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    check_bytes(data, LARGE, round, "received with a freed request");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int round = 0; round < ROUNDS; ++round) {
    freed_send(round);
    freed_receive(round);
  }
  return end();
}
