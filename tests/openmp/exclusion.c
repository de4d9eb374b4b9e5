/* SPDX-License-Identifier: BSD-3-Clause */
/* All ranks update variables of one shared window in marked loops. Two variables are updated under
 * `ws critical`, with and without a name, two by `ws atomic` of eight and of sixteen bytes, and one
 * by `ws atomic capture`. Prints the updates of each variable, and the expected number. An update
 * is lost if two ranks, or two threads of a rank, are in one section at a time. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000000, ROUNDS = 1, WAYS = 5, LINE = 64 };

struct variables {
  volatile long unnamed, named;
  double narrow;
  long double wide, captured;
};
static struct variables* shared;

static void update_one(int way) {
  switch (way) {
    case 0:
#pragma ws critical
      ++shared->unnamed;
      break;
    case 1:
#pragma ws critical(name)
    {
      const long before = shared->named;
      shared->named = before + 1;
    } break;
    case 2:
#pragma ws atomic
      shared->narrow += 1;
      break;
    case 3:
#pragma ws atomic update
      shared->wide = shared->wide + 1;
      break;
    default: {
      long double before;
#pragma ws atomic capture
      before = shared->captured++;
      if (before < 0) abort();
    }
  }
}

static void update(int way) {
#pragma ws for schedule(dynamic, 8)
  for (int i = 0; i < N; ++i) update_one(way);
}

static void report(const char* name, double updates, int ranks) {
  printf("%s: %.0f updates of %.0f\n", name, updates, (double)N * ROUNDS * ranks);
}

int main(int argc, char** argv) {
  int rank, ranks, unit;
  MPI_Aint bytes;
  MPI_Win window;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  void* base;
  MPI_Win_allocate_shared(rank == 0 ? sizeof *shared + LINE : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                          &base, &window);
  MPI_Win_shared_query(window, 0, &bytes, &unit, &base);
  /* Pages are mapped alike in all ranks, but Open MPI aligns the window less than the variables. */
  shared = (struct variables*)(((uintptr_t)base + LINE - 1) / LINE * LINE);
  if (rank == 0) *shared = (struct variables){0};
  for (int round = 0; round < ROUNDS * WAYS; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    update(round % WAYS);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    report("unnamed", (double)shared->unnamed, ranks);
    report("named", (double)shared->named, ranks);
    report("narrow", shared->narrow, ranks);
    report("wide", (double)shared->wide, ranks);
    report("captured", (double)shared->captured, ranks);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
