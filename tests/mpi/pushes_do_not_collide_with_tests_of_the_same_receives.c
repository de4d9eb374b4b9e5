// SPDX-License-Identifier: BSD-3-Clause
//
// Many rendezvous messages of minimal length in both directions: senders push some messages while
// their receivers test the receives of the same messages. Every byte is right each time. If the
// sender and the receiver both moved a message, an old copy could overwrite the next round's data.
//
// run: ranks 2 MH_THRESHOLD=4K MH_EXCHANGE_THRESHOLD=4K MH_MAPPED_THRESHOLD=4K
// run: ranks 2 heap MH_THRESHOLD=4K MH_EXCHANGE_THRESHOLD=4K MH_MAPPED_THRESHOLD=4K
#include "check.h"

enum { BYTES = 4096, MESSAGES = 64, ROUNDS = 400 };

static unsigned char value_of(int message, int round, int from) {
  return (unsigned char)(message * 7 + round * 31 + from * 101);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  unsigned char* out = blank(BYTES * MESSAGES);
  unsigned char* in = blank(BYTES * MESSAGES);
  MPI_Request requests[2 * MESSAGES];
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < MESSAGES; ++i) {
      memset(out + i * BYTES, value_of(i, round, rank), BYTES);
      MPI_Irecv(in + i * BYTES, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[2 * i]);
      MPI_Isend(out + i * BYTES, BYTES, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < BYTES * MESSAGES; ++i) {
      CHECK(in[i] == value_of(i / BYTES, round, !rank), "byte %d of round %d", i, round);
    }
  }
  free(out);
  free(in);
  return end();
}
