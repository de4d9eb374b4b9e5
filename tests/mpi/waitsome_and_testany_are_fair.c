// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 answers the requests of all other ranks, in the order in which MPI_Waitsome, MPI_Waitany
// or MPI_Testany reports them. Requests and answers are large messages. A finished small message is
// reported before a large message of another rank is even sent. A wait that finished one request
// before it looked at the others would hang.
//
// run: ranks 3
// run: ranks 5
#include "check.h"

enum { REQUESTS_EACH = 8, WAYS = 3 };

static void answer_all(int way) {
  MPI_Request requests[16];
  unsigned char* in[16];
  int served[16] = {0}, left = (ranks - 1) * REQUESTS_EACH;
  for (int i = 1; i < ranks; ++i) {
    in[i] = blank(LARGE);
    MPI_Irecv(in[i], LARGE, MPI_BYTE, i, TAG, MPI_COMM_WORLD, &requests[i - 1]);
  }
  while (left > 0) {
    int indices[16], done = 0, flag = 0;
    MPI_Status statuses[16];
    if (way == 0) MPI_Waitsome(ranks - 1, requests, &done, indices, statuses);
    if (way == 1) MPI_Waitany(ranks - 1, requests, indices, statuses);
    while (way == 2 && !flag) MPI_Testany(ranks - 1, requests, indices, &flag, statuses);
    if (way > 0) done = 1;
    CHECK(done > 0 && done < ranks, "%d are done", done);
    for (int i = 0; i < done; ++i) {
      int client = indices[i] + 1;
      check_status(&statuses[i], client, TAG, LARGE);
      check_bytes(in[client], LARGE, client * 100 + served[client], "a request");
      MPI_Send(in[client], LARGE, MPI_BYTE, client, TAG, MPI_COMM_WORLD);
      --left;
      if (++served[client] < REQUESTS_EACH) {
        MPI_Irecv(in[client], LARGE, MPI_BYTE, client, TAG, MPI_COMM_WORLD, &requests[client - 1]);
      }
    }
  }
  for (int i = 1; i < ranks; ++i) free(in[i]);
}

static void ask(void) {
  for (int i = 0; i < REQUESTS_EACH; ++i) {
    unsigned char *out = filled(LARGE, rank * 100 + i), *in = blank(LARGE);
    MPI_Send(out, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    MPI_Recv(in, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_bytes(in, LARGE, rank * 100 + i, "an answer");
    free(in);
    free(out);
  }
}

static void small_before_large(void) {
  unsigned char* data = rank == 0 ? blank(LARGE) : filled(LARGE, 3);
  int token = 0, index = -1, count = 0, indices[2];
  MPI_Request requests[2];
  if (rank == 0) {
    MPI_Irecv(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&token, 1, MPI_INT, 2, TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    CHECK(index == 1, "the message that was sent is not reported first");
    MPI_Send(&token, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD);  // lets rank 1 send large data
    MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
    CHECK(count == 1 && indices[0] == 0, "the large message");
    check_bytes(data, LARGE, 3, "the large message");
  }
  if (rank == 1) {
    MPI_Recv(&token, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(data, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
  }
  if (rank == 2) MPI_Send(&token, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int way = 0; way < WAYS; ++way) {
    if (rank == 0) answer_all(way);
    if (rank != 0) ask();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  small_before_large();
  return end();
}
