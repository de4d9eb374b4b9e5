// SPDX-License-Identifier: BSD-3-Clause
// Two ranks of T threads each under MPI_THREAD_MULTIPLE. Thread i of a rank plays blocking
// ping-pong with thread i of the other rank, on its own tag. The time of a message is the time of a
// batch divided by the number of messages of all threads, so equal rates give equal times for every
// T. A batch is cut off at four times its intended duration, since the rates of libraries differ by
// a factor of a thousand. A second time (`posted_ns`) is the limit with T threads: one thread plays
// while T - 1 receives with other tags are posted, which the MPI library has to search.
// With a window of N, thread i of rank 0 starts N sends at a time and waits for all of them. Thread
// i of rank 1 receives the messages into N buffers and answers without data.
// Options, with their defaults in parentheses:
//   --threads LIST   numbers of threads (1,2,4,8,16,32,64)   --bytes N  of a message (64)
//   --window N (0: ping-pong)   --batches N (5)   --batch-ms T  length of a batch in ms (200)
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"

enum {
  kMostThreads = 1024,
  kMostBytes = 1 << 20,
  kMostWindow = 64,
  kFirstRounds = 20,
  kMostRounds = 10000000,
  kGrowth = 8,
  kMostTimes = 4,    // longest batch over --batch-ms
  kBetweenLooks = 8  // rounds between two readings of the clock
};

struct player {
  pthread_t thread;
  int rank, tag, bytes;
  int window;    // messages a round, in one direction; 0: one message in each direction
  int rounds;    // before play() or stream(): most rounds; after: rounds played
  double until;  // time of now_ns() after which the batch ends
};

static int is_last(const struct player* p, int round) {
  return round + 1 >= p->rounds || (round % kBetweenLooks == 0 && now_ns() > p->until);
}

// The body of a thread if --window is given: rounds of a window of messages from rank 0 and an
// answer. Rank 0 decides which round is the last, and tells rank 1 by the first byte of each
// message.
static void* stream(void* argument) {
  struct player* p = argument;
  const int other = 1 - p->rank;
  const size_t bytes = (size_t)p->bytes;
  char* data = buffer_new(bytes * (size_t)p->window, 0);
  MPI_Request requests[kMostWindow];
  int round = 0;
  for (int over = 0; !over; round++) {
    if (p->rank == 0) over = is_last(p, round);
    for (int i = 0; i < p->window; i++) {
      char* one = data + bytes * (size_t)i;
      if (p->rank == 0) one[0] = (char)over;
      if (p->rank == 0) {
        MPI_Isend(one, p->bytes, MPI_BYTE, other, p->tag, MPI_COMM_WORLD, &requests[i]);
      } else {
        MPI_Irecv(one, p->bytes, MPI_BYTE, other, p->tag, MPI_COMM_WORLD, &requests[i]);
      }
    }
    MPI_Waitall(p->window, requests, MPI_STATUSES_IGNORE);
    if (p->rank == 0) MPI_Recv(NULL, 0, MPI_BYTE, other, p->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (p->rank == 1) MPI_Send(NULL, 0, MPI_BYTE, other, p->tag, MPI_COMM_WORLD);
    if (p->rank == 1) over = data[0];
  }
  p->rounds = round;
  buffer_free(data);
  return NULL;
}

// The body of a thread that plays ping-pong with its counterpart. Rank 0 decides which round is the
// last, and tells rank 1 by the first byte of the message.
static void* play(void* argument) {
  struct player* p = argument;
  const int other = 1 - p->rank;
  char* ball = buffer_new((size_t)p->bytes, 0);
  int round = 0;
  for (ball[0] = 0; !ball[0]; round++) {
    if (p->rank == 0) {
      ball[0] = (char)is_last(p, round);
      MPI_Send(ball, p->bytes, MPI_BYTE, other, p->tag, MPI_COMM_WORLD);
    }
    MPI_Recv(ball, p->bytes, MPI_BYTE, other, p->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (p->rank == 1) MPI_Send(ball, p->bytes, MPI_BYTE, other, p->tag, MPI_COMM_WORLD);
  }
  p->rounds = round;
  buffer_free(ball);
  return NULL;
}

static int window = 0;  // --window

// Starts the threads of this rank. Returns the time in ns until the last of them has ended, and
// stores the number of their messages in `messages`.
static double run(int rank, int threads, int bytes, int rounds, double most_ms, double* messages) {
  static struct player players[kMostThreads];
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_ns();
  for (int i = 0; i < threads; i++) {
    players[i] =
        (struct player){.rank = rank, .tag = i, .bytes = bytes, .window = window, .rounds = rounds};
    players[i].until = start + most_ms * 1e6;
    void* (*const body)(void*) = window == 0 ? play : stream;
    if (pthread_create(&players[i].thread, NULL, body, &players[i]) != 0) fail("no more threads");
  }
  *messages = 0;
  for (int i = 0; i < threads; i++) {
    pthread_join(players[i].thread, NULL);
    *messages += (window == 0 ? 2.0 : window) * players[i].rounds;
  }
  const double spent = now_ns() - start;
  MPI_Barrier(MPI_COMM_WORLD);
  return spent;
}

// Calls run() for one thread after posting `posted` receives that no message matches, and which the
// MPI library must search for each message. Cancels these receives at the end.
static double run_behind(int rank, int posted, int bytes, int rounds, double most_ms,
                         double* messages) {
  static MPI_Request requests[kMostThreads];
  for (int i = 0; i < posted; i++) {
    MPI_Irecv(NULL, 0, MPI_BYTE, 1 - rank, 1 + i, MPI_COMM_WORLD, &requests[i]);
  }
  const double spent = run(rank, 1, bytes, rounds, most_ms, messages);
  for (int i = 0; i < posted; i++) {
    MPI_Cancel(&requests[i]);
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  }
  return spent;
}

// Collective. Returns the number of rounds for which a batch takes `batch_ms`. The number grows
// step by step, since the start of the threads takes most of the time of a batch with few rounds.
static int rounds_for(int rank, int threads, int bytes, double batch_ms) {
  int rounds = kFirstRounds;
  for (int enough = 0; !enough;) {
    double messages = 0;
    const double spent = run(rank, threads, bytes, rounds, kMostTimes * batch_ms, &messages);
    const double part = spent / (batch_ms * 1e6);
    enough = part > 0.5 || rounds > kMostRounds;
    rounds = (int)(rounds * (part > 0.125 ? 1 / part : kGrowth)) + 1;
    MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  return rounds;
}

// The batches that are measured with one number of threads, and their samples.
struct course {
  int threads, rounds;
  struct samples together, behind;  // samples of run() and of run_behind()
};

static void print(const struct course* c, int bytes) {
  printf("{\"kind\": \"threads\", \"threads\": %d, \"bytes\": %d, ", c->threads, bytes);
  printf("\"rounds\": %d, ", c->rounds);
  print_samples(&c->together);
  if (window == 0) printf(", ");
  if (window == 0) print_values("posted_ns", c->behind.mean, c->behind.batches);
  printf("}\n");
  fflush(stdout);
}

// Runs a batch of each number of threads in turn, since the speed of a machine may change within a
// second.
static void measure(int rank, const struct sizes* threads, int bytes, int batches,
                    double batch_ms) {
  const double most_ms = kMostTimes * batch_ms;
  const int alone = rounds_for(rank, 1, bytes, batch_ms);
  struct course courses[kMaxSizes];
  for (int i = 0; i < threads->count; i++) {
    const int count = (int)threads->bytes[i];
    courses[i] = (struct course){count, rounds_for(rank, count, bytes, batch_ms),
                                 samples_new(batches, 0), samples_new(batches, 0)};
  }
  for (int b = 0; b < batches; b++) {
    for (int i = 0; i < threads->count; i++) {
      struct course* c = &courses[i];
      double messages = 0;
      double spent = run(rank, c->threads, bytes, c->rounds, most_ms, &messages);
      c->together.mean[b] = spent / messages;
      if (window != 0) continue;
      spent = run_behind(rank, c->threads - 1, bytes, alone, most_ms, &messages);
      c->behind.mean[b] = spent / messages;
    }
  }
  for (int i = 0; i < threads->count; i++) {
    if (rank == 0) print(&courses[i], bytes);
    samples_free(&courses[i].together);
    samples_free(&courses[i].behind);
  }
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 0, provided = 0, bytes = 64, batches = 5;
  double batch_ms = 200;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  struct sizes threads = parse_sizes("1,2,4,8,16,32,64");
  const struct option_to options[] = {
      {"threads", kSizes, &threads},  {"bytes", kNumber, &bytes},     {"window", kNumber, &window},
      {"batches", kNumber, &batches}, {"batch-ms", kReal, &batch_ms}, {0}};
  parse_options("threads", argc, argv, options);
  print_config("threads", argc, argv);
  if (ranks != 2) fail("needs two ranks");
  if (provided != MPI_THREAD_MULTIPLE) fail("this MPI has no MPI_THREAD_MULTIPLE");
  if (bytes < 1 || bytes > kMostBytes || batches < 1) fail("--bytes, --batches: out of range");
  if (window < 0 || window > kMostWindow) fail("--window: out of range");
  for (int i = 0; i < threads.count; i++) {
    if (threads.bytes[i] < 1 || threads.bytes[i] > kMostThreads) fail("--threads: out of range");
  }
  measure(rank, &threads, bytes, batches, batch_ms);
  MPI_Finalize();
  return 0;
}
