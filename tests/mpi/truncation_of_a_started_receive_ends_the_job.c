// SPDX-License-Identifier: BSD-3-Clause
//
// A large message that matches a started receive of a few bytes ends the job when the receive
// completes, by the call that BY names. Short receives before and after it do not matter. (Open MPI
// 5 itself forgets the error of a request that was tested.)
//
// run: ranks 2 fails BY=wait
// run: ranks 2 fails BY=wait_in_a_tight_loop
// run: ranks 2 fails BY=waitall
// run: ranks 2 fails BY=waitall_with_long_ones
// run: ranks 2 fails BY=waitany
// run: ranks 2 fails BY=waitsome
//
// run: ranks 2 fails BY=test
// run: ranks 2 fails BY=testall
// run: ranks 2 fails BY=testany
// run: ranks 2 fails BY=testsome
//
// run: ranks 2 fails helped BY=get_status
// run: ranks 2 fails BY=persistent
// run: ranks 2 fails BY=wait MH_MEMORY=cells
// run: ranks 2 fails BY=waitall MH_THRESHOLD=2000 MH_EXCHANGE_THRESHOLD=2000
#include "check.h"

enum { ROOM = 1000, SHORTS = 6, MANY = 2007 };

static unsigned char buffers[SHORTS][ROOM];
static MPI_Request requests[SHORTS + 1];

// Starts the six short receives. The first of them gets tag 0; the large message of send_all()
// matches the fourth.
static void start_receives(bool persistent) {
  for (int i = 0; i < SHORTS; ++i) {
    if (persistent) {
      MPI_Recv_init(buffers[i], ROOM, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
      MPI_Start(&requests[i]);
    } else {
      MPI_Irecv(buffers[i], ROOM, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
    }
  }
}

static void send_all(void) {
  unsigned char* data = filled(LARGE, 1);
  MPI_Request request;
  MPI_Isend(data, LARGE, MPI_BYTE, 1, SHORTS, MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
  for (int i = 0; i < SHORTS; ++i) {
    MPI_Send(data, i == 3 ? LARGE : ROOM, MPI_BYTE, 1, i, MPI_COMM_WORLD);
  }
}

static void wait_in_turn(void) {
  for (int i = 0; i < SHORTS; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
}

static void wait_in_a_tight_loop(void) {
  for (int i = 0; i < MANY; ++i) {
    MPI_Request request;
    MPI_Irecv(buffers[0], ROOM, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static void send_in_a_tight_loop(void) {
  unsigned char* data = filled(LARGE, 1);
  for (int i = 0; i < MANY; ++i) {
    MPI_Send(data, i == MANY - 1 ? LARGE : ROOM, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  }
}

static void poll(const char* by) {
  int flag = 0, index, found;
  int indices[SHORTS];
  while (flag == 0 && strcmp(by, "testall") == 0) {
    MPI_Testall(SHORTS, requests, &flag, MPI_STATUSES_IGNORE);
  }
  for (int i = 0; i < SHORTS; i += flag) {
    if (strcmp(by, "test") == 0) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
    if (strcmp(by, "get_status") == 0) {
      MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
    }
    if (strcmp(by, "testany") == 0) {
      MPI_Testany(SHORTS, requests, &index, &flag, MPI_STATUS_IGNORE);
    }
    if (strcmp(by, "testsome") == 0) {
      MPI_Testsome(SHORTS, requests, &found, indices, MPI_STATUSES_IGNORE);
      flag = found;
    }
  }
}

static void wait_for_some(const char* by) {
  int index, found;
  int indices[SHORTS];
  for (int done = 0; done < SHORTS; done += found) {
    found = 1;
    if (strcmp(by, "waitany") == 0) MPI_Waitany(SHORTS, requests, &index, MPI_STATUS_IGNORE);
    if (strcmp(by, "waitsome") == 0) {
      MPI_Waitsome(SHORTS, requests, &found, indices, MPI_STATUSES_IGNORE);
    }
  }
}

static void wait_with_long_ones(void) {
  unsigned char* data = blank(LARGE);
  MPI_Irecv(data, LARGE, MPI_BYTE, 0, SHORTS, MPI_COMM_WORLD, &requests[SHORTS]);
  MPI_Waitall(SHORTS + 1, requests, MPI_STATUSES_IGNORE);
}

static void receive(const char* by) {
  if (strcmp(by, "wait_in_a_tight_loop") == 0) return wait_in_a_tight_loop();
  start_receives(strcmp(by, "persistent") == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(by, "waitall") == 0 || strcmp(by, "persistent") == 0) {
    MPI_Waitall(SHORTS, requests, MPI_STATUSES_IGNORE);
  } else if (strcmp(by, "waitall_with_long_ones") == 0) {
    wait_with_long_ones();
  } else if (strcmp(by, "wait") == 0) {
    wait_in_turn();
  } else if (strncmp(by, "wait", 4) == 0) {
    wait_for_some(by);
  } else {
    poll(by);
    MPI_Waitall(SHORTS, requests, MPI_STATUSES_IGNORE);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* by = getenv("BY");
  if (rank == 1) {
    receive(by);
  } else if (strcmp(by, "wait_in_a_tight_loop") == 0) {
    send_in_a_tight_loop();
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    send_all();
  }
  return end();
}
