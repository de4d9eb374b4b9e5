// SPDX-License-Identifier: BSD-3-Clause
//
// Hundreds of communicators exist at a time, more than the 256 for which the node segment has a
// line: the counts of a communicator's arrivals in collectives. Only communicators that have
// collectives, which are some of them, need a line. A large message into a buffer with gaps is
// under way on one communicator while its receiver, and later its sender, is in a barrier of
// another communicator. Then all communicators are freed in a different order, and made again. A
// communicator without a line has no arrival barrier: a rendezvous message would hang beside its
// collectives, and a line that was not returned would be missing in the second turn.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=64K MH_MAPPED_THRESHOLD=4K
#include "check.h"

enum { COUNT = 600, TURNS = 2, BLOCKS = 1000, BLOCK = LARGE / BLOCKS };

static MPI_Datatype gaps;

static void talk(MPI_Comm comm, MPI_Comm other, int key) {
  unsigned char *packed = filled(LARGE, key), *spread = blank(2 * LARGE);
  MPI_Request request;
  MPI_Status status;
  if (rank == 1) {
    MPI_Irecv(spread, 1, gaps, 0, TAG, comm, &request);
    MPI_Barrier(other);
  } else {
    MPI_Isend(packed, LARGE, MPI_BYTE, 1, TAG, comm, &request);
    usleep(500);
    MPI_Barrier(other);
  }
  MPI_Wait(&request, &status);
  if (rank == 1) {
    check_status(&status, 0, TAG, LARGE);
    for (int i = 0; i < BLOCKS; ++i) memcpy(packed + i * BLOCK, spread + 2 * i * BLOCK, BLOCK);
    check_bytes(packed, LARGE, key, "beside a barrier");
  }
  free(spread);
  free(packed);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  static MPI_Comm comms[COUNT];
  MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  for (int turn = 0; turn < TURNS; ++turn) {
    for (int i = 0; i < COUNT; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    talk(comms[COUNT - 1], comms[COUNT - 2], turn);  // no line is in use yet
    for (int i = 0; i < COUNT; i += 2) {
      int sum = 0;
      MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comms[i]);
      CHECK(sum == ranks * (ranks - 1) / 2, "the sum is %d", sum);
      if (i % 50 == 0) talk(comms[i + 1], comms[i], i);
    }
    talk(comms[0], comms[COUNT - 1], turn);
    for (int i = 0; i < COUNT; ++i) MPI_Comm_free(&comms[(i * 7) % COUNT]);
  }
  MPI_Type_free(&gaps);
  return end();
}
