/* SPDX-License-Identifier: BSD-3-Clause */
/* The affinity of the program's own threads never changes. Rank 0 has loops while the other ranks
 * wait; all ranks have threads of their own, which check the CPUs that they may run on. Prints
 * whether the CPUs stayed the same. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum { N = 200, TIMES = 1000, OWN = 16 };
static cpu_set_t at_first;
static long others, moved;

static void work(int i) {
  char name[16] = "";
  cpu_set_t now;
  for (volatile int k = 0; k < 500 + i; ++k) continue;
  prctl(PR_GET_NAME, name);
  if (strcmp(name, "mh-helper") == 0) {
    __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
    return;
  }
  sched_getaffinity(0, sizeof now, &now);
  if (!CPU_EQUAL(&now, &at_first)) __atomic_fetch_add(&moved, 1, __ATOMIC_RELAXED);
}

/* In pid namespaces, thread ids of each rank count from 1. A waiting rank has so many threads that
 * their ids include the ids of rank 0's threads. A lender that moved a helper of rank 0 by its
 * thread id would move a thread of its own process. */
static void team(int rank) {
#pragma omp parallel num_threads(rank == 0 ? 2 : OWN)
  work(0);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  sched_getaffinity(0, sizeof at_first, &at_first);
  team(rank);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int times = 0; rank == 0 && times < TIMES; ++times) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < N; ++i) work(i);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  team(rank);
  int all = 0, mine = moved != 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("case pinned %s %s\n", all == 0 ? "ok" : "WRONG", others != 0 ? "joined" : "alone");
  }
  MPI_Finalize();
  return 0;
}
