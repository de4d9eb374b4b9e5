// SPDX-License-Identifier: BSD-3-Clause
//
// After MPI_Request_free on an active persistent send, the message is still delivered. Persistent
// sends made afterwards complete, and not too early. If a later send took over the slot or the FIN
// of the freed send, it would complete too early or never.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 2 nocma MH_MEMORY=cells MH_CORES=4
// run: ranks 4
// run: ranks 4 helped MH_FAKE_NODES=2
#include "check.h"

enum { ROUNDS = 6, HUGE_ONE = 16 << 20 };

typedef int Init(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
static Init* const inits[] = {MPI_Send_init, MPI_Ssend_init};

static int peer(void) { return rank ^ 1; }

static void token(int from_me) {
  char byte = 0;
  if (from_me) {
    MPI_Send(&byte, 1, MPI_CHAR, peer(), 99, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&byte, 1, MPI_CHAR, peer(), 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

// The request of `data[0]` is freed while active. The persistent send of `data[1]` must not
// complete when the receiver takes `data[0]`.
static void freed_then_next(Init* init, int bytes, int key, int late) {
  unsigned char* data[2];
  MPI_Request requests[2];
  for (int i = 0; i < 2; ++i)
    data[i] = rank % 2 == 0 ? filled((size_t)bytes, key + i) : blank((size_t)bytes);
  if (rank % 2 == 0) {
    init(data[0], bytes, MPI_BYTE, peer(), 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Start(&requests[0]);
    MPI_Request_free(&requests[0]);
    CHECK(requests[0] == MPI_REQUEST_NULL, "a freed request is not null");
    init(data[1], bytes, MPI_BYTE, peer(), 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Start(&requests[1]);
    token(1);
    if (init == inits[1]) {
      // The sends are synchronous. The receiver has received only the first message, so the send of
      // the second message must not be complete.
      token(0);
      int flag = 0;
      for (int i = 0; i < 200; ++i) {
        MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "a synchronous send is complete before its receive");
      }
      token(1);
    }
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    fill(data[1], (size_t)bytes, key + 7);
    MPI_Start(&requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[1]);
  } else {
    token(0);
    if (late) pass_time(0.01);
    MPI_Recv(data[0], bytes, MPI_BYTE, peer(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_bytes(data[0], (size_t)bytes, key, "sent with a freed request");
    if (init == inits[1]) {
      token(1);
      token(0);
    }
    MPI_Recv(data[1], bytes, MPI_BYTE, peer(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_bytes(data[1], (size_t)bytes, key + 1, "sent after it");
    MPI_Recv(data[1], bytes, MPI_BYTE, peer(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_bytes(data[1], (size_t)bytes, key + 7, "sent again");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 2; ++i) free(data[i]);
}

// Messages are received in the reverse order of their start. The freed sends are received only
// after the last send has completed.
static void reversed(int key) {
  enum { MANY = 5 };
  unsigned char* data[MANY];
  for (int i = 0; i < MANY; ++i) data[i] = rank % 2 == 0 ? filled(LARGE, key + i) : blank(LARGE);
  if (rank % 2 == 0) {
    MPI_Request request, last;
    for (int i = 0; i < MANY - 1; ++i) {
      MPI_Send_init(data[i], LARGE, MPI_BYTE, peer(), i, MPI_COMM_WORLD, &request);
      MPI_Start(&request);
      MPI_Request_free(&request);
    }
    MPI_Ssend_init(data[MANY - 1], LARGE, MPI_BYTE, peer(), MANY - 1, MPI_COMM_WORLD, &last);
    MPI_Start(&last);
    MPI_Wait(&last, MPI_STATUS_IGNORE);
    token(1);
    fill(data[MANY - 1], LARGE, 1);
    MPI_Request_free(&last);
    token(0);
  } else {
    for (int i = MANY - 1; i >= 0; --i) {
      MPI_Recv(data[i], LARGE, MPI_BYTE, peer(), i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      check_bytes(data[i], LARGE, key + i, "received in reverse");
      if (i == MANY - 1) token(0);
    }
    token(1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < MANY; ++i) free(data[i]);
}

// Frees the request of a message that is under way when its sender enters MPI_Finalize.
static unsigned char* at_the_end(void) {
  MPI_Request request;
  unsigned char* data = rank % 2 == 0 ? filled(LARGE, 3) : blank(LARGE);
  if (rank % 2 == 0) {
    MPI_Send_init(data, LARGE, MPI_BYTE, peer(), 0, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Request_free(&request);
  } else {
    pass_time(0.01);
    MPI_Recv(data, LARGE, MPI_BYTE, peer(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_bytes(data, LARGE, 3, "received while its sender ends");
  }
  return data;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < 2; ++i) {
      freed_then_next(inits[i], round < 2 ? HUGE_ONE : LARGE, 100 * round, round % 2);
    }
    reversed(round);
  }
  unsigned char* data = at_the_end();
  int result = end();
  free(data);
  return result;
}
