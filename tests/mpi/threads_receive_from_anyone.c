// SPDX-License-Identifier: BSD-3-Clause
//
// Threads of every rank receive from any source, by MPI_Recv, MPI_Probe and MPI_Mprobe, from as
// many threads of all other ranks. Each message is received once, by a thread with its tag.
// Meanwhile another thread of each rank is in collectives on its own communicator.
//
// run: ranks 2 THREADS=12
// run: ranks 3 THREADS=6
#include <pthread.h>

#include "check.h"

enum { MESSAGES = 60, BYTES = 48, KINDS = 3 };

static int threads;
static MPI_Comm collectives;

// A message: the sender's rank, its number among the messages of that rank and tag, and checked
// bytes.
struct content {
  int from, number;
  unsigned char rest[BYTES - 2 * sizeof(int)];
};

static void* send_to_all(void* argument) {
  const int tag = (int)(intptr_t)argument;
  struct content content = {.from = rank};
  for (int i = 0; i < MESSAGES; ++i) {
    content.number = i;
    fill(content.rest, sizeof content.rest, rank * 1009 + tag * 31 + i);
    for (int to = 0; to < ranks; ++to) {
      if (to != rank) MPI_Send(&content, BYTES, MPI_BYTE, to, tag, MPI_COMM_WORLD);
    }
  }
  return NULL;
}

static void receive(int kind, int tag, struct content* content, MPI_Status* status) {
  MPI_Status seen;
  MPI_Message message;
  if (kind == 0) {
    MPI_Recv(content, BYTES, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, status);
  } else if (kind == 1) {
    MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &seen);
    MPI_Recv(content, BYTES, MPI_BYTE, seen.MPI_SOURCE, tag, MPI_COMM_WORLD, status);
    CHECK(status->MPI_SOURCE == seen.MPI_SOURCE, "another message than the one seen");
  } else {
    MPI_Mprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &message, &seen);
    check_status(&seen, seen.MPI_SOURCE, tag, BYTES);
    MPI_Mrecv(content, BYTES, MPI_BYTE, &message, status);
  }
}

static void* receive_all(void* argument) {
  const int tag = (int)(intptr_t)argument;
  int* next = calloc((size_t)ranks, sizeof *next);
  for (int i = 0; i < MESSAGES * (ranks - 1); ++i) {
    struct content content;
    MPI_Status status;
    receive(i % KINDS, tag, &content, &status);
    check_status(&status, content.from, tag, BYTES);
    CHECK(content.number == next[content.from]++, "message %d of rank %d out of order",
          content.number, content.from);
    check_bytes(content.rest, sizeof content.rest, content.from * 1009 + tag * 31 + content.number,
                "a message from anyone");
  }
  free(next);
  return NULL;
}

static void* reduce(void* argument) {
  (void)argument;
  for (int i = 0; i < MESSAGES; ++i) {
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, collectives);
    CHECK(sum == ranks * (ranks - 1) / 2, "the sum is %d", sum);
    MPI_Barrier(collectives);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (!begin_with_threads(&argc, &argv)) return skip("this library has no MPI_THREAD_MULTIPLE");
  MPI_Comm_dup(MPI_COMM_WORLD, &collectives);
  threads = wanted_threads();
  pthread_t all[2 * threads + 1];
  for (intptr_t i = 0; i < threads; ++i) {
    pthread_create(&all[2 * i], NULL, receive_all, (void*)i);
    pthread_create(&all[2 * i + 1], NULL, send_to_all, (void*)i);
  }
  pthread_create(&all[2 * threads], NULL, reduce, NULL);
  for (int i = 0; i < 2 * threads + 1; ++i) pthread_join(all[i], NULL);
  MPI_Comm_free(&collectives);
  return end();
}
