// SPDX-License-Identifier: BSD-3-Clause
//
// Two ranks, each with loops whose iterations call MPI. Arguments: `level` (multiple or none), then
// the kinds of loops. After "few", each loop runs a few times only. test_mpi_calls.py also makes a
// program with marked loops from this source. Behind each kind the program prints "joined" if a
// helper did iterations of such a loop, else "alone".
//
//   exchange   iteration i of a rank exchanges messages with iteration i of the other rank
//   critical   iterations send in a critical section, to receives posted before
//   wait       a helper waits for a message of the rank on whose core it works
//   late       as exchange, but MPI is called only after a helper has joined
//   allreduce  a collective in each iteration     put  a one-sided call
//   fatal      as allreduce, with the default error handler
//
// run: by test_mpi_calls.py
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { N = 60, SMALL = 5, LARGE = 40000, ROUNDS = 20000 };
static int rank, other, right = 1;
static long others;
static pid_t self;

static pid_t me(void) { return (pid_t)syscall(SYS_gettid); }

static void wrong(const char* what, long value) {
  fprintf(stderr, "rank %d: %s %ld\n", rank, what, value);
  __atomic_store_n(&right, 0, __ATOMIC_RELAXED);
}

/* Iterations of rank 0 take ten times as long, so the ranks wait for each other. */
static void work(int i) {
  for (volatile int k = 0; k < (rank == 0 ? 20000 : 2000) + i; ++k) continue;
  if (me() != self) __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
}

static int value_of(int from, int i, int k) { return from * 1000003 + i * 1009 + k; }

static void wait_by_test(MPI_Request* request) {
  for (int flag = 0; !flag;) MPI_Test(request, &flag, MPI_STATUS_IGNORE);
}

static void exchange(int i) {
  const int count = i % 3 == 2 ? LARGE : SMALL;
  int* out = malloc((size_t)count * sizeof *out);
  int* in = calloc((size_t)count, sizeof *in);
  MPI_Request requests[2];
  for (int k = 0; k < count; ++k) out[k] = value_of(rank, i, k);
  switch (i % 4) {
    case 0:
      MPI_Irecv(in, count, MPI_INT, other, i, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(out, count, MPI_INT, other, i, MPI_COMM_WORLD, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      break;
    case 1:
      MPI_Sendrecv(out, count, MPI_INT, other, i, in, count, MPI_INT, other, i, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      break;
    case 2:
      MPI_Isend(out, count, MPI_INT, other, i, MPI_COMM_WORLD, &requests[0]);
      MPI_Recv(in, count, MPI_INT, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      break;
    default:
      MPI_Irecv(in, count, MPI_INT, other, i, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(out, count, MPI_INT, other, i, MPI_COMM_WORLD, &requests[1]);
      wait_by_test(&requests[0]);
      wait_by_test(&requests[1]);
  }
  for (int k = 0; k < count; ++k) {
    if (in[k] == value_of(other, i, k)) continue;
    wrong("exchange", i);
    break;
  }
  free(in);
  free(out);
}

static void exchange_round(void) {
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < N; ++i) {
    work(i);
    exchange(i);
  }
}

static void late_round(int calls) {
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < N; ++i) {
    work(i);
    if (calls) exchange(i);
  }
}

static void critical_round(void) {
  MPI_Request requests[N];
  int in[N];
  for (int i = 0; i < N; ++i) MPI_Irecv(&in[i], 1, MPI_INT, other, i, MPI_COMM_WORLD, &requests[i]);
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < N; ++i) {
    work(i);
    const int out = value_of(rank, i, 0);
#pragma omp critical
    MPI_Send(&out, 1, MPI_INT, other, i, MPI_COMM_WORLD);
  }
  MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < N; ++i) {
    if (in[i] != value_of(other, i, 0)) wrong("critical", i);
  }
}

/* ---- A helper that waits */

enum { COME = 1000, GO_ON };
static int waits; /* a helper waits, or has waited */

static void wait_if_first(void) {
  if (__atomic_exchange_n(&waits, 1, __ATOMIC_ACQ_REL) != 0) return;
  MPI_Send(NULL, 0, MPI_INT, other, COME, MPI_COMM_WORLD);
  MPI_Recv(NULL, 0, MPI_INT, other, GO_ON, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void waiting_loop(void) {
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < 2000; ++i) {
    work(i);
    if (me() != self) wait_if_first();
  }
}

/* Rank 1, which lends its core, must answer the helper's message, and answers late. If the helper
 * kept the core while it waits, both ranks would hang. */
static void wait_round(void) {
  if (rank == 0) {
    while (waits == 0) waiting_loop();
    return;
  }
  MPI_Recv(NULL, 0, MPI_INT, other, COME, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < 5000; ++i) work(i);
  MPI_Send(NULL, 0, MPI_INT, other, GO_ON, MPI_COMM_WORLD);
}

/* ---- Calls that are refused */

static long refused, done;

static void count(int code) {
  int error = MPI_SUCCESS;
  MPI_Error_class(code, &error);
  if (error == MPI_SUCCESS) __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
  if (error == MPI_ERR_OTHER) __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
  if (error != MPI_SUCCESS && error != MPI_ERR_OTHER) wrong("error class", error);
}

static void allreduce_round(void) {
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < N; ++i) {
    int mine = i, sum = 0;
    work(i);
    const int code = MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (code == MPI_SUCCESS && sum != 2 * i) wrong("allreduce", i);
    count(code);
  }
}

static void put_round(void) {
  int* place;
  MPI_Win window;
  MPI_Win_allocate(N * (MPI_Aint)sizeof *place, sizeof *place, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &place, &window);
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  memset(place, 0, N * sizeof *place);
  MPI_Win_fence(0, window);
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < N; ++i) {
    static int values[N];
    work(i);
    values[i] = value_of(rank, i, 0);
    count(MPI_Put(&values[i], 1, MPI_INT, other, i, 1, MPI_INT, window));
  }
  MPI_Win_fence(0, window);
  for (int i = 0; i < N; ++i) {
    if (place[i] != 0 && place[i] != value_of(other, i, 0)) wrong("put", i);
  }
  MPI_Win_free(&window);
}

/* ---- Rounds */

static int over_all(int mine, MPI_Op how) {
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, how, MPI_COMM_WORLD);
  return all;
}

static int is(const char* what, const char* name) { return strcmp(what, name) == 0; }

static void one_round(const char* what, int joined) {
  if (is(what, "exchange")) exchange_round();
  if (is(what, "critical")) critical_round();
  if (is(what, "wait")) wait_round();
  if (is(what, "late")) late_round(joined);
  if (is(what, "allreduce") || is(what, "fatal")) allreduce_round();
  if (is(what, "put")) put_round();
}

static void play(const char* what, int rounds) {
  int joined = 0;
  others = done = refused = 0;
  if (!is(what, "fatal")) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int round = 0; round < rounds && right; ++round) {
    one_round(what, joined);
    right = over_all(right, MPI_MIN);
    const int before = joined;
    joined = over_all(others != 0, MPI_MAX);
    if (before && round > 4) break;
  }
  /* Rank 0 prints the counts of both ranks: a launcher may mix the lines of two ranks. */
  const long mine[2] = {done, refused};
  long all[2][2];
  MPI_Gather(mine, 2, MPI_LONG, all, 2, MPI_LONG, 0, MPI_COMM_WORLD);
  if (rank != 0) return;
  printf("%s %s\n", what, joined ? "joined" : "alone");
  for (int r = 0; r < 2; ++r) {
    if (all[r][0] + all[r][1] == 0) continue;
    printf("%s rank %d done %ld refused %ld\n", what, r, all[r][0], all[r][1]);
  }
  fflush(stdout);
}

int main(int argc, char** argv) {
  int level = -1, rounds = ROUNDS;
  if (is(argv[1], "multiple")) {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  } else {
    MPI_Init(&argc, &argv);
  }
  MPI_Query_thread(&level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  other = 1 - rank;
  self = me();
  for (int i = 2; i < argc; ++i) {
    if (is(argv[i], "few")) {
      rounds = 6;
    } else {
      play(argv[i], is(argv[i], "wait") ? 1 : rounds);
    }
  }
  if (rank == 0) {
    printf("level %s\n", level == MPI_THREAD_MULTIPLE ? "multiple" : "below");
    printf("%s\n", right ? "PASS" : "WRONG");
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
