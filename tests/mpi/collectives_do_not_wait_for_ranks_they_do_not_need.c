// SPDX-License-Identifier: BSD-3-Clause
//
// The root of a small broadcast or scatter, and a contributor to a small reduction or gather, may
// return before the other ranks have entered. Rank 0 then sends a message for which the other ranks
// wait before they enter. The tested MPI libraries return early (MPICH 5 only from gather and
// scatter), and programs rely on that. With an arrival barrier in such a call, rank 0 and the other
// ranks would wait for each other for ever. A barrier releases no rank before the last rank has
// entered.
//
// run: ranks 2
// run: ranks 3
#include "check.h"

#if defined(MPI_ABI_VERSION) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 50000000)
static const bool small_trees_do_not_wait = false;
#else
static const bool small_trees_do_not_wait = true;
#endif

static int number;

static void late(void (*collective)(void)) {
  int token = 0;
  if (rank == 0) {
    collective();
    for (int i = 1; i < ranks; ++i) MPI_Send(&token, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    collective();
  }
}

static void bcast(void) {
  number = rank == 0 ? 42 : 0;
  MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(number == 42, "broadcast gave %d", number);
}

// Rank 0 leaves all three broadcasts before the other ranks enter the first.
static void three_bcasts(void) {
  for (int i = 0; i < 3; ++i) bcast();
}

static void reduce(void) {  // rank 0 contributes, the last rank is the root
  int result = 0, one = rank + 1;
  MPI_Reduce(&one, &result, 1, MPI_INT, MPI_SUM, ranks - 1, MPI_COMM_WORLD);
  if (rank == ranks - 1) CHECK(result == ranks * (ranks + 1) / 2, "reduction gave %d", result);
}

static void gather(void) {
  int all[16] = {0}, one = rank + 1;
  MPI_Gather(&one, 1, MPI_INT, all, 1, MPI_INT, ranks - 1, MPI_COMM_WORLD);
  for (int i = 0; i < ranks && rank == ranks - 1; ++i) CHECK(all[i] == i + 1, "gather, part %d", i);
}

static void scatter(void) {
  int all[16], one = 0;
  for (int i = 0; i < 16; ++i) all[i] = i + 5;
  MPI_Scatter(all, 1, MPI_INT, &one, 1, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(one == rank + 5, "scatter gave %d", one);
}

// A late rank writes into a window before the barrier. After the barrier, every rank sees the
// value.
static void barrier_holds(void) {
  MPI_Win window;
  int *base, unit;
  MPI_Aint size;
  MPI_Win_allocate_shared(rank == 0 ? sizeof(int) : 0, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                          &base, &window);
  MPI_Win_shared_query(window, 0, &size, &unit, &base);
  for (int i = 1; i <= 200; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    int writer = i % ranks;
    if (rank == writer) {
      if (i % 10 == 0) pass_time(0.002);
      __atomic_store_n(base, i, __ATOMIC_RELAXED);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int seen = __atomic_load_n(base, __ATOMIC_RELAXED);
    CHECK(seen == i, "behind the barrier %d is seen, not %d", seen, i);
  }
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int i = 0; i < 20; ++i) {
    if (small_trees_do_not_wait) late(bcast);
    if (small_trees_do_not_wait) late(three_bcasts);
    if (small_trees_do_not_wait) late(reduce);
    late(gather);
    late(scatter);
  }
  barrier_holds();
  return end();
}
