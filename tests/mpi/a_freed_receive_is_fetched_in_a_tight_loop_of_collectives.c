// SPDX-License-Identifier: BSD-3-Clause
//
// A receive into a buffer with gaps, whose request was freed, completes while its rank makes only
// collective calls in a tight loop. The sender enters the next collective after its MPI_Ssend.
// Collectives in a tight loop wait in the MPI library, where nobody copies messages: without a
// regular look at pending receives, both ranks would hang.
//
// run: ranks 2
#include "check.h"

enum { ROUNDS = 4, BLOCK = 1000, BLOCKS = LARGE / BLOCK, TIGHT = 3000 };

static void collectives(int times) {
  for (int i = 0; i < times; ++i) {
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == ranks, "sum %d", sum);
  }
}

static void await_last_byte(const unsigned char* last, unsigned char expected) {
  double end_at = MPI_Wtime() + 10;
  while (*(volatile const unsigned char*)last != expected) {
    int flag;
    CHECK(MPI_Wtime() < end_at, "the message of a freed receive does not arrive");
    MPI_Iprobe(0, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  }
}

static void play_sender(int round) {
  unsigned char* data = filled(LARGE, round);
  collectives(TIGHT);
  MPI_Ssend(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  collectives(1);
  free(data);
}

static void play_receiver(int round, MPI_Datatype gaps) {
  unsigned char* data = blank(2 * LARGE);
  unsigned char* sent = filled(LARGE, round);
  MPI_Request request;
  collectives(TIGHT);
  MPI_Irecv(data, 1, gaps, 0, TAG, MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
  collectives(1);
  await_last_byte(&data[(size_t)(BLOCKS - 1) * 2 * BLOCK + BLOCK - 1], sent[LARGE - 1]);
  pass_time(0.02);
  for (size_t i = 0; i < BLOCKS; ++i) {
    CHECK(memcmp(data + i * 2 * BLOCK, sent + i * BLOCK, BLOCK) == 0, "block %zu is wrong", i);
  }
  free(sent);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Datatype gaps;
  MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  for (int round = 0; round < ROUNDS; ++round) {
    if (rank == 0) play_sender(round);
    if (rank == 1) play_receiver(round, gaps);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Type_free(&gaps);
  return end();
}
