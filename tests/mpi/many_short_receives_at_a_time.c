// SPDX-License-Identifier: BSD-3-Clause
//
// Thousands of short receives are under way at a time and complete in any order, by any call. Some
// are from MPI_PROC_NULL, some are cancelled or freed. No message is lost, and the program may free
// a buffer as soon as its receive completes. A library that kept the receive request would look at
// freed memory for an RTS header.
//
// run: ranks 2
// run: ranks 3
// run: ranks 2 MH_THRESHOLD=4096 MH_EXCHANGE_THRESHOLD=4096
#include "check.h"

enum { MANY = 3000, ROOM = 200, ROUNDS = 5 };

static MPI_Request requests[2 * MANY];

static unsigned char* buffer_of(int i) {
  unsigned char* buffer = malloc(ROOM);
  CHECK(buffer != NULL, "no memory");
  memset(buffer, i, ROOM);
  return buffer;
}

// Each receive has its own buffer, which is freed as soon as the receive completes.
static void exchange(int round, int to, int from) {
  static unsigned char* in[MANY];
  static unsigned char* out[MANY];
  for (int i = 0; i < MANY; ++i) {
    in[i] = buffer_of(0xee);
    MPI_Irecv(in[i], ROOM, MPI_BYTE, from, i % 7, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < MANY; ++i) {
    out[i] = buffer_of(i + round);
    MPI_Isend(out[i], ROOM, MPI_BYTE, to, i % 7, MPI_COMM_WORLD, &requests[MANY + i]);
  }
  for (int i = 0; i < MANY; i += 2) {
    int at = (i * 7919) % MANY;
    if (requests[at] == MPI_REQUEST_NULL) continue;
    MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
  }
  for (int i = 0; i < 100; ++i) {
    int at = 0;
    MPI_Waitany(MANY, requests, &at, MPI_STATUS_IGNORE);
  }
  MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < MANY; ++i) {
    for (int at = 0; at < ROOM; ++at) {
      CHECK(in[i][at] == (unsigned char)(i + round), "message %d, byte %d: %d", i, at, in[i][at]);
    }
    free(in[i]);
    free(out[i]);
  }
}

static void receive_from_nobody(void) {
  for (int i = 0; i < MANY; ++i) {
    static unsigned char untouched[ROOM];
    MPI_Irecv(untouched, ROOM, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
}

static void cancel_some(void) {
  for (int i = 0; i < 100; ++i) {
    unsigned char* never = buffer_of(0);
    MPI_Irecv(never, ROOM, MPI_BYTE, rank, 100 + i, MPI_COMM_WORLD, &requests[i]);
    MPI_Cancel(&requests[i]);
    MPI_Status status;
    int cancelled = 0;
    MPI_Wait(&requests[i], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled, "receive %d was not cancelled", i);
    free(never);
  }
}

// The last message of the program arrives by a receive whose request was freed.
static void free_one(int to, int from) {
  static unsigned char last[ROOM];
  memset(last, 0, sizeof last);
  MPI_Irecv(last, ROOM, MPI_BYTE, from, 50, MPI_COMM_WORLD, &requests[0]);
  MPI_Request_free(&requests[0]);
  unsigned char* out = buffer_of(9);
  MPI_Sendrecv(out, ROOM, MPI_BYTE, to, 50, NULL, 0, MPI_BYTE, from, 51, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  free(out);
}

static void answer(int to) { MPI_Send(NULL, 0, MPI_BYTE, to, 51, MPI_COMM_WORLD); }

static void persistent(int to, int from) {
  enum { FEW = 20 };
  static unsigned char in[FEW][ROOM], out[FEW][ROOM];
  for (int i = 0; i < FEW; ++i) {
    MPI_Recv_init(in[i], ROOM, MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Send_init(out[i], ROOM, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[FEW + i]);
  }
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < FEW; ++i) memset(out[i], round + i, ROOM);
    MPI_Startall(2 * FEW, requests);
    MPI_Waitall(2 * FEW, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < FEW; ++i) {
      CHECK(in[i][ROOM - 1] == (unsigned char)(round + i), "round %d, message %d", round, i);
    }
  }
  for (int i = 0; i < 2 * FEW; ++i) MPI_Request_free(&requests[i]);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  for (int round = 0; round < ROUNDS; ++round) {
    exchange(round, to, from);
    receive_from_nobody();
    cancel_some();
    persistent(to, from);
  }
  answer(to);
  free_one(to, from);
  return end();
}
