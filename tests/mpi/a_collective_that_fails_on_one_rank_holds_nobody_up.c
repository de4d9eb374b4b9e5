// SPDX-License-Identifier: BSD-3-Clause
// run: ranks 2
// run: ranks 3
//
// One rank alone makes a collective with a bad argument, which returns an error. All later
// collectives, barriers and windows work, and a barrier still holds every rank until the last has
// entered. The same is true after MPI_Comm_free has failed and after an error handler has left a
// collective by longjmp. If Manyhands counted the failed call as an arrival, ranks would hang or
// leave a barrier too early.
#include <setjmp.h>
#include <stdatomic.h>

#include "check.h"

enum { ROUNDS = 60 };

static jmp_buf out;

static void jump_out(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  longjmp(out, 1);
}

static void all_kinds(MPI_Comm comm, MPI_Win win) {
  int one = 1, sum = 0, all[16], root = -1;
  CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS, "allreduce");
  CHECK(sum == ranks, "sum %d", sum);
  MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm);
  for (int r = 0; r < ranks; ++r) CHECK(all[r] == r, "gathered %d", all[r]);
  if (rank == 0) root = 77;
  MPI_Bcast(&root, 1, MPI_INT, 0, comm);
  CHECK(root == 77, "broadcast %d", root);
  MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, ranks - 1, comm);
  MPI_Scan(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == rank + 1, "scan %d", sum);
  MPI_Win_fence(0, win);
  MPI_Comm twin;
  MPI_Comm_dup(comm, &twin);
  MPI_Barrier(twin);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, twin);
  MPI_Comm_free(&twin);
}

// Makes a collective call that fails, because of a bad argument. Only the calling rank makes it.
static void fail(MPI_Comm comm, int round) {
  int word = 0, words[16] = {0};
  int code = MPI_SUCCESS;
  if (round % 3 == 0) code = MPI_Bcast(&word, -1, MPI_INT, 0, comm);
  if (round % 3 == 1) code = MPI_Allreduce(words, &word, 1, MPI_INT, MPI_OP_NULL, comm);
  if (round % 3 == 2) code = MPI_Allgather(&word, 1, MPI_DATATYPE_NULL, words, 1, MPI_INT, comm);
  CHECK(code != MPI_SUCCESS, "it was to fail");
}

// Checks that no rank leaves a barrier before every rank has entered it, even if a collective has
// just failed on one of them.
static void check_barrier(MPI_Comm comm, atomic_int* rounds, int round) {
  if (rank == round % ranks) {
    fail(comm, round);
    usleep(300);
  }
  atomic_store(&rounds[rank], round + 1);
  MPI_Barrier(comm);
  for (int r = 0; r < ranks; ++r) CHECK(atomic_load(&rounds[r]) > round, "%d is not there", r);
}

// Rank 1 makes a collective with a bad argument, which the others make without data.
static void fail_among_others(MPI_Comm comm) {
  int word = 0;
  const int code = MPI_Bcast(&word, rank == 1 ? -1 : 0, MPI_INT, 0, comm);
  CHECK((code == MPI_SUCCESS) == (rank != 1), "code %d", code);
  usleep(2000);
}

static void free_what_cannot_be(void) {
  MPI_Comm world = MPI_COMM_WORLD;
  CHECK(MPI_Comm_free(&world) != MPI_SUCCESS, "MPI_COMM_WORLD was freed");
}

static void jump_from_a_handler(void) {
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(jump_out, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  int word = 0;
  if (setjmp(out) == 0) {
    MPI_Bcast(&word, -1, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(false, "the handler was not called");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&handler);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  atomic_int* mine;
  atomic_int* rounds;
  MPI_Aint size;
  int unit;
  MPI_Win win;
  MPI_Win_allocate_shared(rank == 0 ? ranks * (MPI_Aint)sizeof *rounds : 0, sizeof *rounds,
                          MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
  MPI_Win_shared_query(win, 0, &size, &unit, &rounds);
  MPI_Win_fence(0, win);
  MPI_Comm pristine, fresh;
  MPI_Comm_dup(MPI_COMM_WORLD, &pristine);

  if (rank == 0) fail(MPI_COMM_WORLD, 0);
  all_kinds(MPI_COMM_WORLD, win);
  for (int round = 0; round < ROUNDS; ++round) {
    check_barrier(pristine, rounds, round);
    if (round % 8 == 0) all_kinds(pristine, win);
  }
  if (rank == 1) jump_from_a_handler();
  all_kinds(MPI_COMM_WORLD, win);
  if (rank == 1) free_what_cannot_be();
  all_kinds(MPI_COMM_WORLD, win);
  if (rank == 0) fail(MPI_COMM_WORLD, 1);
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  fail_among_others(fresh);
  all_kinds(fresh, win);
  MPI_Comm_free(&fresh);
  MPI_Comm_free(&pristine);
  MPI_Win_free(&win);
  return end();
}
