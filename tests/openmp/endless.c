// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 runs and checks shared loops for some seconds, while the other ranks wait in a barrier.
// Rank 0 prints READY after some loops, and PASS or WRONG at the end. The word "joined" behind PASS
// or WRONG means that a helper did some iterations on another rank's core; "alone" means none did.
//
// run: by test_faults.py, with the seconds
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MANY = 2000 };
static long others;
static pid_t self;

static int one_loop(void) {
  long sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
  for (int i = 0; i < MANY; ++i) {
    for (volatile int k = 0; k < 300; ++k) continue;
    if ((pid_t)syscall(SYS_gettid) != self) __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
    sum += i;
  }
  return sum == (long)MANY * (MANY - 1) / 2;
}

int main(int argc, char** argv) {
  int rank, right = 1;
  const double seconds = argc > 1 ? atof(argv[1]) : 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  self = (pid_t)syscall(SYS_gettid);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    const double end = MPI_Wtime() + seconds;
    int loops = 0;
    for (; right && MPI_Wtime() < end; ++loops) {
      right = one_loop();
      if (loops == 20) printf("READY\n"), fflush(stdout);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("%s %s\n", right ? "PASS" : "WRONG", others != 0 ? "joined" : "alone");
  MPI_Finalize();
  return 0;
}
