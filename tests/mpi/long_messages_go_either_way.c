// SPDX-License-Identifier: BSD-3-Clause
//
// Long contiguous messages arrive intact where cells or CMA may carry them. The patterns: one way,
// many at a time, both ways at once, a shift whose ends have no partner, persistent requests, and
// an exchange of two ranks while the other ranks wait. PATTERN names a single pattern to run. A
// cell that is reused too early, or a copy from the wrong message, shows as a wrong byte.
//
// run: ranks 2
// run: ranks 3 helped MH_CORES=3
// run: ranks 2 helped nocma MH_MEMORY=cells
#include "check.h"

enum { ROUNDS = 200, MANY = 8, BYTES = 2 * THRESHOLD + 24 };

static int after, before;  // neighbours of this rank in the ring
static unsigned char *in[MANY], *out[MANY];

static int key_of(int round, int i, int from) { return 17 * round + 5 * i + 3 * from; }

// Returns the distance between checked bytes: a page, or one byte in every eighth round.
static size_t step_of(int round) { return round % 8 == 0 ? 1 : 4096; }

static void refill(int round, int i) {
  const int key = key_of(round, i, rank);
  const size_t step = step_of(round);
  for (size_t k = 0; k < BYTES; k += step) {
    out[i][k] = byte_of(key, k);
    in[i][k] = (unsigned char)~out[i][k];
  }
}

static void look(int round, int i, int from) {
  const int key = key_of(round, i, from);
  const size_t step = step_of(round);
  for (size_t k = 0; k < BYTES; k += step) {
    CHECK(in[i][k] == byte_of(key, k), "byte %zu of %d in round %d", k, i, round);
  }
}

static void one_way(int round) {
  refill(round, 0);
  if (rank % 2 == 0 && rank + 1 < ranks) {
    MPI_Send(out[0], BYTES, MPI_BYTE, rank + 1, TAG, MPI_COMM_WORLD);
  } else if (rank % 2 == 1) {
    MPI_Recv(in[0], BYTES, MPI_BYTE, rank - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    look(round, 0, rank - 1);
  }
}

static void exchange(int round) {
  MPI_Request requests[2 * MANY];
  for (int i = 0; i < MANY; ++i) {
    refill(round, i);
    MPI_Irecv(in[i], BYTES, MPI_BYTE, before, i, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < MANY; ++i) {
    MPI_Isend(out[i], BYTES, MPI_BYTE, after, i, MPI_COMM_WORLD, &requests[MANY + i]);
  }
  MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < MANY; ++i) look(round, i, before);
}

static void sends_first(int round) {
  MPI_Request sends[MANY];
  for (int i = 0; i < MANY; ++i) {
    refill(round, i);
    MPI_Isend(out[i], BYTES, MPI_BYTE, after, i, MPI_COMM_WORLD, &sends[i]);
  }
  for (int i = 0; i < MANY; ++i) {
    MPI_Recv(in[i], BYTES, MPI_BYTE, before, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    look(round, i, before);
  }
  MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE);
}

static void sendrecv(int round) {
  refill(round, 0);
  MPI_Sendrecv(out[0], BYTES, MPI_BYTE, after, TAG, in[0], BYTES, MPI_BYTE, before, TAG,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  look(round, 0, before);
}

static void shift(int round) {
  refill(round, 0);
  const int to = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  const int from = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  MPI_Sendrecv(out[0], BYTES, MPI_BYTE, to, TAG, in[0], BYTES, MPI_BYTE, from, TAG, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  if (from != MPI_PROC_NULL) look(round, 0, from);
}

static void persistent(int round) {
  static MPI_Request requests[2];
  if (round == 0) {
    MPI_Recv_init(in[0], BYTES, MPI_BYTE, before, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out[0], BYTES, MPI_BYTE, after, TAG, MPI_COMM_WORLD, &requests[1]);
  }
  refill(round, 0);
  MPI_Startall(2, requests);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  look(round, 0, before);
  if (round == ROUNDS - 1) {
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
  }
}

// Ranks 0 and 1 exchange, and all other ranks wait for the end.
static void two_of_all(int round) {
  if (rank < 2) {
    MPI_Request requests[2];
    refill(round, 0);
    MPI_Irecv(in[0], BYTES, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out[0], BYTES, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    look(round, 0, 1 - rank);
  }
  if (round != ROUNDS - 1) return;
  for (int i = 2; rank == 0 && i < ranks; ++i)
    MPI_Send(NULL, 0, MPI_BYTE, i, TAG + 1, MPI_COMM_WORLD);
  if (rank > 1) MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const struct pattern {
  const char* name;
  void (*run)(int round);
} PATTERNS[] = {{"one-way", one_way},      {"exchange", exchange}, {"sends-first", sends_first},
                {"sendrecv", sendrecv},    {"shift", shift},       {"persistent", persistent},
                {"two-of-all", two_of_all}};

int main(int argc, char** argv) {
  begin(&argc, &argv);
  after = (rank + 1) % ranks;
  before = (rank + ranks - 1) % ranks;
  for (int i = 0; i < MANY; ++i) {
    in[i] = blank(BYTES);
    out[i] = filled(BYTES, i);
  }
  const char* wanted = getenv("PATTERN");
  int found = 0;
  for (size_t p = 0; p < sizeof PATTERNS / sizeof *PATTERNS; ++p) {
    if (wanted != NULL && strcmp(wanted, PATTERNS[p].name) != 0) continue;
    ++found;
    for (int round = 0; round < ROUNDS; ++round) PATTERNS[p].run(round);
  }
  CHECK(found > 0, "no such PATTERN");
  for (int i = 0; i < MANY; ++i) {
    free(in[i]);
    free(out[i]);
  }
  return end();
}
