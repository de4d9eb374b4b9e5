// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Waitall over short messages of all kinds returns each receive's own status, and null or
// inactive requests the empty status. This holds in tight loops and with a late partner, wherever
// the last message is in the array. The buffer of an inactive request is unmapped: a look for an
// RTS header there would crash.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 3
#include <sys/mman.h>

#include "check.h"

enum { FEW = 9, ROUNDS = 300, ROOM = 3000 };

static int size_of(int i) { return i * i * 30; }

// Exchanges FEW messages with MPI_Waitall. The receive of message i has the index (i * stride) %
// FEW in the array, so `stride` decides where the last message is.
static void exchange(int round, int stride, int to, int from, bool any) {
  static unsigned char in[FEW][ROOM], out[FEW][ROOM];
  static MPI_Request requests[2 * FEW + 2];
  static MPI_Status statuses[2 * FEW + 2];
  MPI_Request* none = &requests[2 * FEW];
  MPI_Request* inactive = &requests[2 * FEW + 1];
  void* gone = mmap(NULL, ROOM, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(gone != MAP_FAILED, "no memory");
  *none = MPI_REQUEST_NULL;
  MPI_Recv_init(gone, ROOM, MPI_BYTE, from, TAG, MPI_COMM_WORLD, inactive);
  munmap(gone, ROOM);
  for (int i = 0; i < FEW; ++i) {
    MPI_Irecv(in[i], ROOM, MPI_BYTE, any ? MPI_ANY_SOURCE : from, 100 + i, MPI_COMM_WORLD,
              &requests[i * stride % FEW]);
  }
  if (rank == 0 && round % 100 == 99) pass_time(2e-3);
  for (int i = 0; i < FEW; ++i) {
    memset(out[i], round + i, sizeof out[i]);
    MPI_Isend(out[i], size_of(i), MPI_BYTE, to, 100 + i, MPI_COMM_WORLD, &requests[FEW + i]);
  }
  MPI_Waitall(2 * FEW + 2, requests, statuses);
  for (int i = 0; i < FEW; ++i) {
    check_status(&statuses[i * stride % FEW], from, 100 + i, size_of(i));
    CHECK(i == 0 || in[i][size_of(i) - 1] == (unsigned char)(round + i), "message %d", i);
    CHECK(requests[i] == MPI_REQUEST_NULL && requests[FEW + i] == MPI_REQUEST_NULL, "left %d", i);
  }
  check_status(&statuses[2 * FEW], MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  check_status(&statuses[2 * FEW + 1], MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  CHECK(*inactive != MPI_REQUEST_NULL, "a persistent request is gone");
  MPI_Request_free(inactive);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  for (int round = 0; round < ROUNDS; ++round) exchange(round, 1, to, from, false);
  for (int round = 0; round < ROUNDS; ++round) exchange(round, FEW - 1, to, from, false);
  for (int round = 0; round < ROUNDS; ++round) exchange(round, 2, to, from, true);
  return end();
}
