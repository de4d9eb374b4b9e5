// SPDX-License-Identifier: BSD-3-Clause
//
// Many threads of two ranks, with MPI_THREAD_MULTIPLE, exchange messages with the other rank's
// thread of the same number. Sends and receives are blocking, synchronous, persistent, or
// nonblocking with MPI_Wait, Waitall, Waitany or Waitsome; some are long. Each thread gets its own
// bytes and statuses. The server that polls for all threads must neither swap two completions nor
// forget to wake a thread.
//
// run: ranks 2 THREADS=2
// run: ranks 2 THREADS=3 MH_CORES=8
// run: ranks 2 THREADS=16
// run: ranks 2 THREADS=150
// run: ranks 2 THREADS=16 MH_WAIT_TOGETHER=0
#include <pthread.h>

#include "check.h"

enum { WINDOW = 6, SHORT = 64, LEAST_ROUNDS = 1000 };

struct window {
  unsigned char out[WINDOW][SHORT], in[WINDOW][SHORT];
  MPI_Request requests[2 * WINDOW];
  int sizes[WINDOW];
};

static int threads;
static int bytes_of(int round, int i) { return 1 + (round * 7 + i * 13) % SHORT; }
static int key_of(int who, int thread, int round, int i) {
  return who * 1000003 + thread * 10007 + round * 101 + i;
}

static void ping_pong(int thread, int round) {
  const int other = 1 - rank, bytes = bytes_of(round, 0);
  unsigned char out[SHORT], in[SHORT];
  MPI_Status status;
  fill(out, (size_t)bytes, key_of(rank, thread, round, 0));
  if (rank == 0) {
    if (round % 3 == 0)
      MPI_Ssend(out, bytes, MPI_BYTE, other, thread, MPI_COMM_WORLD);
    else
      MPI_Send(out, bytes, MPI_BYTE, other, thread, MPI_COMM_WORLD);
  }
  MPI_Recv(in, SHORT, MPI_BYTE, other, thread, MPI_COMM_WORLD, &status);
  if (rank == 1) MPI_Send(out, bytes, MPI_BYTE, other, thread, MPI_COMM_WORLD);
  check_status(&status, other, thread, bytes);
  check_bytes(in, (size_t)bytes, key_of(other, thread, round, 0), "a short message");
}

// Starts a window: WINDOW receives and WINDOW sends that are under way at once. The first half of
// its requests are the receives, the second half the sends.
static void start(struct window* w, int thread, int round) {
  const int other = 1 - rank;
  for (int i = 0; i < WINDOW; ++i) {
    MPI_Irecv(w->in[i], SHORT, MPI_BYTE, other, thread, MPI_COMM_WORLD, &w->requests[i]);
  }
  for (int i = 0; i < WINDOW; ++i) {
    w->sizes[i] = bytes_of(round, i);
    fill(w->out[i], (size_t)w->sizes[i], key_of(rank, thread, round, i));
    MPI_Isend(w->out[i], w->sizes[i], MPI_BYTE, other, thread, MPI_COMM_WORLD,
              &w->requests[WINDOW + i]);
  }
}

static void check_received(struct window* w, int thread, int round, int i, MPI_Status* status) {
  if (i >= WINDOW) return;
  check_status(status, 1 - rank, thread, w->sizes[i]);
  check_bytes(w->in[i], (size_t)w->sizes[i], key_of(1 - rank, thread, round, i), "of a window");
}

static void all_at_once(int thread, int round) {
  struct window w;
  MPI_Status statuses[2 * WINDOW];
  start(&w, thread, round);
  MPI_Waitall(2 * WINDOW, w.requests, statuses);
  for (int i = 0; i < 2 * WINDOW; ++i) {
    CHECK(w.requests[i] == MPI_REQUEST_NULL, "request %d is left", i);
    check_received(&w, thread, round, i, &statuses[i]);
  }
}

static void one_by_one(int thread, int round) {
  struct window w;
  MPI_Status status;
  bool seen[2 * WINDOW] = {false};
  start(&w, thread, round);
  for (int count = 0; count < 2 * WINDOW; ++count) {
    int index = -1;
    MPI_Waitany(2 * WINDOW, w.requests, &index, &status);
    CHECK(index >= 0 && index < 2 * WINDOW && !seen[index], "index %d", index);
    seen[index] = true;
    check_received(&w, thread, round, index, &status);
  }
}

static void some_at_a_time(int thread, int round) {
  struct window w;
  MPI_Status statuses[2 * WINDOW];
  int indices[2 * WINDOW];
  start(&w, thread, round);
  for (int done = 0, found = 0; done < 2 * WINDOW; done += found) {
    MPI_Waitsome(2 * WINDOW, w.requests, &found, indices, statuses);
    CHECK(found > 0 && done + found <= 2 * WINDOW, "%d found after %d", found, done);
    for (int i = 0; i < found; ++i) check_received(&w, thread, round, indices[i], &statuses[i]);
  }
}

static void persistent(int thread, int round) {
  const int other = 1 - rank;
  unsigned char out[SHORT], in[SHORT];
  MPI_Request pair[2];
  MPI_Status statuses[2];
  MPI_Recv_init(in, SHORT, MPI_BYTE, other, thread, MPI_COMM_WORLD, &pair[0]);
  MPI_Send_init(out, SHORT, MPI_BYTE, other, thread, MPI_COMM_WORLD, &pair[1]);
  for (int i = 0; i < 3; ++i) {
    fill(out, SHORT, key_of(rank, thread, round, i));
    MPI_Startall(2, pair);
    MPI_Waitall(2, pair, statuses);
    check_status(&statuses[0], other, thread, SHORT);
    check_bytes(in, SHORT, key_of(other, thread, round, i), "of a persistent pair");
  }
  MPI_Request_free(&pair[0]);
  MPI_Request_free(&pair[1]);
}

static void long_one(int thread, int round) {
  const int other = 1 - rank, key = key_of(rank, thread, round, 0);
  unsigned char *out = filled(THRESHOLD + 1000, key), *in = blank(THRESHOLD + 1000);
  MPI_Status status;
  MPI_Sendrecv(out, THRESHOLD + 1000, MPI_BYTE, other, thread, in, THRESHOLD + 1000, MPI_BYTE,
               other, thread, MPI_COMM_WORLD, &status);
  check_status(&status, other, thread, THRESHOLD + 1000);
  check_bytes(in, THRESHOLD + 1000, key_of(other, thread, round, 0), "a long message");
  free(out);
  free(in);
}

static void* play(void* argument) {
  void (*const kinds[])(int, int) = {ping_pong,      ping_pong,  all_at_once, one_by_one,
                                     some_at_a_time, persistent, ping_pong,   long_one};
  const int thread = (int)(intptr_t)argument;
  const int rounds = LEAST_ROUNDS / threads > 16 ? LEAST_ROUNDS / threads : 16;
  for (int round = 0; round < rounds; ++round) kinds[round % 8](thread, round);
  return NULL;
}

int main(int argc, char** argv) {
  if (!begin_with_threads(&argc, &argv)) return skip("this library has no MPI_THREAD_MULTIPLE");
  threads = wanted_threads();
  pthread_t* all = malloc(sizeof *all * (size_t)threads);
  for (intptr_t i = 0; i < threads; ++i) {
    CHECK(pthread_create(&all[i], NULL, play, (void*)i) == 0, "no thread %d", (int)i);
  }
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
  free(all);
  return end();
}
