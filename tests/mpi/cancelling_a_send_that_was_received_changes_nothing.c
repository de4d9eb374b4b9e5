// SPDX-License-Identifier: BSD-3-Clause
//
// After MPI_Cancel of a large send, received already or not, the message arrives exactly if
// MPI_Test_cancelled says that it was not cancelled. Later synchronous sends complete when they are
// received and not before. Later requests that reuse the handle of the cancelled send can be
// cancelled as usual. Ordinary and persistent sends take turns. A wrong answer of
// MPI_Test_cancelled makes the receiver wait for ever or get the old data.
//
// run: ranks 2
// run: ranks 2 MH_MEMORY=none
// run: ranks 2 MH_MEMORY=cells MH_CORES=2
#include "check.h"

enum { BIG = 200000, ROUNDS = 30, GO = 9, TOLD = 8 };

static void start(bool persistent, const void* data, MPI_Request* request) {
  if (!persistent) {
    MPI_Isend(data, BIG, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, request);
    return;
  }
  MPI_Send_init(data, BIG, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, request);
  MPI_Start(request);
}

// Sends, lets the receiver run for `seconds`, and cancels the send. Returns whether the send was
// cancelled.
static int cancel_late(bool persistent, double seconds, unsigned char* data) {
  MPI_Request request;
  MPI_Status status;
  int cancelled = 0;
  start(persistent, data, &request);
  pass_time(seconds);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  return cancelled;
}

static void send_round(int round, bool persistent) {
  unsigned char* data = filled(BIG, round);
  int cancelled = cancel_late(persistent, round % 3 * 0.001, data);
  memset(data, 0, BIG);
  MPI_Send(&cancelled, 1, MPI_INT, 1, TOLD, MPI_COMM_WORLD);
  fill(data, BIG, 100 + round);
  MPI_Send(data, BIG, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  free(data);
}

static void receive_round(int round) {
  unsigned char* data = blank(BIG);
  MPI_Status status;
  MPI_Request request;
  int cancelled = 0;
  MPI_Irecv(&cancelled, 1, MPI_INT, 0, TOLD, MPI_COMM_WORLD, &request);
  MPI_Recv(data, BIG, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
  check_status(&status, 0, TAG, BIG);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check_bytes(data, BIG, cancelled ? 100 + round : round, "the first message to arrive");
  if (!cancelled) {
    MPI_Recv(data, BIG, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
    check_bytes(data, BIG, 100 + round, "the second message to arrive");
  }
  free(data);
}

static void send_synchronously(int round) {
  unsigned char* data = filled(BIG, round);
  MPI_Request request;
  int flag = 0;
  MPI_Issend(data, BIG, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
  for (double stop = MPI_Wtime() + 0.002; MPI_Wtime() < stop;) {
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "synchronous send %d ended and was not received", round);
  }
  MPI_Send(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(data);
}

static void receive_late(int round) {
  unsigned char* data = blank(BIG);
  MPI_Recv(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(data, BIG, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  check_bytes(data, BIG, round, "a synchronous message");
  free(data);
}

// Cancels a receive that matches no message. Its handle may be the one of an earlier large send.
static void cancel_receive(void) {
  int into = 0, cancelled = 0;
  MPI_Request request;
  MPI_Status status;
  MPI_Irecv(&into, 1, MPI_INT, 1, 77, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled, "a receive that nobody answers is not cancelled");
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int round = 0; round < ROUNDS; ++round) {
    bool persistent = round % 2 == 1 && !is_mpich5();
    if (round >= ROUNDS / 2) MPI_Pcontrol(round / 3 % 2);  // switches helping off and on
    if (rank == 0) {
      send_round(round, persistent);
      cancel_receive();
      send_synchronously(round);
      cancel_receive();
    } else {
      receive_round(round);
      receive_late(round);
    }
  }
  return end();
}
