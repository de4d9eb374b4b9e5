// SPDX-License-Identifier: BSD-3-Clause
//
// A rank polls, now and then, for a short message that its peer sends after a large one. The large
// message has gaps at the receiver, so only the receiver's process can write it: its polls move the
// message.
//
// run: ranks 2
// run: ranks 2 MH_HEAP=off
#include "check.h"

enum { BLOCK = 64, BLOCKS = LARGE / BLOCK, ROUNDS = 3, PAUSE_US = 50 };

static void send(unsigned char* data) {
  char end = 1;
  MPI_Send(data, BLOCKS * BLOCK, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  MPI_Send(&end, 1, MPI_BYTE, 1, TAG + 1, MPI_COMM_WORLD);
}

static void receive(const unsigned char* sent, unsigned char* data, MPI_Datatype gaps) {
  char end = 0;
  MPI_Request large, small;
  memset(data, 0, 2 * BLOCKS * BLOCK);
  MPI_Irecv(data, 1, gaps, 0, TAG, MPI_COMM_WORLD, &large);
  MPI_Irecv(&end, 1, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD, &small);
  for (int flag = 0; !flag; usleep(PAUSE_US)) MPI_Test(&small, &flag, MPI_STATUS_IGNORE);
  MPI_Wait(&large, MPI_STATUS_IGNORE);
  for (int i = 0; i < BLOCKS; ++i)
    CHECK(memcmp(data + 2 * i * BLOCK, sent + i * BLOCK, BLOCK) == 0, "block %d is wrong", i);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Datatype gaps;
  MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  unsigned char *sent = filled(LARGE, 1), *data = malloc(2 * LARGE);
  for (int round = 0; round < ROUNDS; ++round) {
    if (rank == 0) send(sent);
    if (rank == 1) receive(sent, data, gaps);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Type_free(&gaps);
  free(data);
  free(sent);
  return end();
}
