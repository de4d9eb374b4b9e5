/* SPDX-License-Identifier: BSD-3-Clause */
/* A loop whose iterations each have a large array on the stack. The argument is the size of the
 * array in bytes. With DEEP_HELPERS_ONLY in the environment only helpers use so much stack: the
 * main thread may have less. A helper whose stack is smaller than that of the owner's threads would
 * crash. Rank 0 runs the loop until a helper has joined, and prints whether a helper has joined. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { N = 60, MOST = 2000 };
static long others, seen[N];
static size_t bytes;
static int helpers_only;

static int is_helper(void) {
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  return strcmp(name, "mh-helper") == 0;
}

__attribute__((noinline)) static long use(size_t depth) {
  volatile char array[depth];
  for (size_t i = 0; i < depth; i += depth / 16) array[i] = 1;
  return array[0];
}

__attribute__((noinline)) static void loop(void) {
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < N; ++i) {
    for (volatile int k = 0; k < 5000; ++k) continue;
    const int helper = is_helper();
    seen[i] += use(helper || !helpers_only ? bytes : 1000);
    if (helper) __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
  }
}

int main(int argc, char** argv) {
  int rank, times = 0, right = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
  helpers_only = getenv("DEEP_HELPERS_ONLY") != NULL;
  for (; rank == 0 && times < MOST && (others == 0 || times < 5); ++times) loop();
  for (int i = 0; i < N; ++i) right = right && seen[i] == times;
  if (rank == 0) printf("case deep %s %s\n", right ? "ok" : "WRONG", others ? "joined" : "alone");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
