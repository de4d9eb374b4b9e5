/* SPDX-License-Identifier: BSD-3-Clause */
/* A loop that can be shared, in handed_out(), and a loop that cannot be shared, in dealt_out().
 * Rank 0 runs both repeatedly while the other ranks wait. The first argument limits the executions.
 * With a second argument, the loops end once a helper has joined. Prints whether the sum is right
 * and whether a helper has joined. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { N = 400 };
static long seen[N];
static long others;
static pid_t self;

static long work(int i) {
  for (volatile int k = 0; k < 500 + i % 50; ++k) continue;
  if ((pid_t)syscall(SYS_gettid) != self) __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
  return i;
}

__attribute__((noinline)) void handed_out(void) {
#pragma omp parallel for schedule(dynamic, 4)
  for (int i = 0; i < N; ++i) seen[i] += work(i);
}

__attribute__((noinline)) void dealt_out(void) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < N; ++i) seen[i] += 2 * work(i);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  self = (pid_t)syscall(SYS_gettid);
  const int most = argc > 1 ? atoi(argv[1]) : 100;
  int times = 0;
  for (; rank == 0 && times < most && !(argc > 2 && others != 0 && times > 4); ++times) {
    handed_out();
    dealt_out();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  long sum = 0;
  for (int i = 0; i < N; ++i) sum += seen[i];
  if (rank == 0) {
    const int right = sum == 3L * times * N * (N - 1) / 2;
    printf("case lists %s %s\n", right ? "ok" : "WRONG", others != 0 ? "joined" : "alone");
  }
  MPI_Finalize();
  return 0;
}
