// SPDX-License-Identifier: BSD-3-Clause
// The delay until waiting ranks help a transfer that starts while they are inside a collective.
//
// All ranks but the pair (ranks 0 and 1), the waiters, enter the collective, and the pair moves
// `--messages` messages in a row. At the first message the waiters have just entered. With --late
// US they still compute at the first message, and enter later. At the last message they have waited
// for a while. Prints the times of message 1, 2, ... N, a value for each round. The first messages
// are slower than the last by the delay until the waiters help.
// Options, with their defaults in parentheses:
//   --bytes B (8M)   --messages N (6)   --rounds R (12)   --wait barrier|allreduce
//   --late US (0)    waiters compute for US after the start before they enter
//   --self           rank 0 sends to itself (MPI_Sendrecv); with 2 ranks, rank 1 is then a waiter
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { kTag = 5, kMaxMessages = 64 };

struct options {
  size_t bytes;
  int messages;
  int rounds;
  int allreduce;
  double late_us;
  int self;
};

static void move(const struct options* o, int rank, char* out, char* in) {
  const int n = (int)o->bytes;
  if (o->self) {
    MPI_Sendrecv(out, n, MPI_BYTE, 0, kTag, in, n, MPI_BYTE, 0, kTag, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
  } else if (rank == 0) {
    MPI_Send(out, n, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
  } else {
    MPI_Recv(in, n, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void wait_together(const struct options* o) {
  double mine = 1, sum;
  if (o->allreduce) {
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void compute(double us) {
  const double end = now_ns() + us * 1e3;
  while (now_ns() < end) {
  }
}

// Runs a round on this rank: it moves the messages if `mover` is 1 and stores their times in
// `time`, else it computes for --late and enters the collective.
static void one_round(const struct options* o, int rank, int mover, char* out, char* in,
                      double* time) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (!mover) {
    compute(o->late_us);
    wait_together(o);
    return;
  }
  for (int m = 0; m < o->messages; m++) {
    const double start = now_ns();
    move(o, rank, out, in);
    time[m] = now_ns() - start;
  }
  wait_together(o);
}

static void print_result(const struct options* o, double time[][kMaxMessages], int ranks) {
  printf("{\"kind\": \"waiters\", \"bytes\": %zu, \"ranks\": %d, \"wait\": \"%s\", ", o->bytes,
         ranks, o->allreduce ? "allreduce" : "barrier");
  printf("\"self\": %d, \"late_us\": %g, \"message_ns\": [", o->self, o->late_us);
  for (int m = 0; m < o->messages; m++) {
    printf(m == 0 ? "[" : ", [");
    for (int r = 0; r < o->rounds; r++) printf("%s%.6g", r == 0 ? "" : ", ", time[r][m]);
    printf("]");
  }
  printf("]}\n");
  fflush(stdout);
}

static struct options parse(int argc, char** argv) {
  struct options o = {8 << 20, 6, 12, 0, 0, 0};
  const char* wait = "barrier";
  const struct option_to options[] = {{"bytes", kBytes, &o.bytes},
                                      {"messages", kNumber, &o.messages},
                                      {"rounds", kNumber, &o.rounds},
                                      {"wait", kText, &wait},
                                      {"late", kReal, &o.late_us},
                                      {"self", kFlag, &o.self},
                                      {0}};
  parse_options("waiters", argc, argv, options);
  o.allreduce = strcmp(wait, "allreduce") == 0;
  if (!o.allreduce && strcmp(wait, "barrier") != 0) fail("--wait is barrier or allreduce");
  if (o.messages < 1 || o.messages > kMaxMessages) fail("--messages is 1 to 64");
  if (o.rounds < 1) fail("--rounds must be at least 1");
  return o;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options o = parse(argc, argv);
  if (!o.self && ranks < 2) fail("needs 2 ranks");
  const int receiver = o.self ? 0 : 1;
  print_config("waiters", argc, argv);
  char* out = buffer_new(o.bytes, 1);
  char* in = buffer_new(o.bytes, 2);
  double(*time)[kMaxMessages] = malloc((size_t)o.rounds * sizeof *time);
  if (time == NULL) fail("out of memory");
  for (int r = 0; r < o.rounds; r++) one_round(&o, rank, rank <= receiver, out, in, time[r]);
  if (rank == receiver && memcmp(out, in, o.bytes) != 0) fail("wrong byte received");
  // The receiver measures the times, and rank 0 prints them. Unless rank 0 sends to itself, the
  // receiver is rank 1, which now sends the times to rank 0.
  const int size = (int)((size_t)o.rounds * sizeof *time);
  if (receiver == 1 && rank == 1) MPI_Send(time, size, MPI_BYTE, 0, kTag, MPI_COMM_WORLD);
  if (receiver == 1 && rank == 0) {
    MPI_Recv(time, size, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == 0) print_result(&o, time, ranks);
  free(time);
  buffer_free(out);
  buffer_free(in);
  MPI_Finalize();
  return 0;
}
