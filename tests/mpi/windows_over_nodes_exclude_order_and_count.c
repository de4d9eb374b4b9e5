// SPDX-License-Identifier: BSD-3-Clause
//
// All ranks, those on the target's node and those on the other node, use a window over two nodes at
// the same time. Exclusive locks exclude: a counter is read, incremented and written back by three
// calls. The operations of a rank on one element happen in the order of its calls. MPI_Accumulate,
// MPI_Fetch_and_op and MPI_Compare_and_swap are atomic for each element, and requests are complete
// after a wait. The standard defines no sum of MPI_CHAR; the window sums it if the library does.
//
// run: ranks 4 helped
// run: ranks 4 helped MH_FAKE_NODES=2 MH_WINDOWS=all
// run: ranks 5 helped MH_FAKE_NODES=2 MH_WINDOWS=all MH_MEMORY=cells
// run: ranks 4 heap MH_FAKE_NODES=2 MH_WINDOWS=all MH_MEMORY=mapped
#include <stddef.h>

#include "check.h"

enum { ROUNDS = 40, MANY = 100000, CHARS = 100 };

typedef struct {
  long locked, added, swapped;
  long own[8];  // element r is for the operations of rank r
  char chars[CHARS];
  double many[MANY];
} Memory;

#define AT(member) ((MPI_Aint)offsetof(Memory, member))

static MPI_Win win;
static Memory* memory;

static void count_under_locks(int target) {
  for (int i = 0; i < ROUNDS; ++i) {
    long value = -1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    MPI_Get(&value, 1, MPI_LONG, target, AT(locked), 1, MPI_LONG, win);
    MPI_Win_flush_local(target, win);
    ++value;
    MPI_Put(&value, 1, MPI_LONG, target, AT(locked), 1, MPI_LONG, win);
    MPI_Win_unlock(target, win);
  }
}

static void count_by_elements(int target) {
  const long one = 1;
  long last = -1;
  for (int i = 0; i < ROUNDS; ++i) {
    long before = -1;
    MPI_Fetch_and_op(&one, &before, MPI_LONG, target, AT(added), MPI_SUM, win);
    MPI_Win_flush(target, win);
    CHECK(before > last, "%ld after %ld", before, last);
    last = before;
    for (long expected = 0; before = -1, true; expected = before) {
      const long wanted = expected + 1;
      MPI_Compare_and_swap(&wanted, &expected, &before, MPI_LONG, target, AT(swapped), win);
      MPI_Win_flush(target, win);
      if (before == expected) break;
    }
  }
}

// Checks that accumulates on one element, without a flush between them, take effect in the order of
// the calls.
static void keep_order(int target) {
  const MPI_Aint at = AT(own) + (MPI_Aint)sizeof(long) * rank;
  long before[ROUNDS];
  for (long i = 0; i < ROUNDS; ++i) {
    const long base = 1000 * i;
    MPI_Accumulate(&base, 1, MPI_LONG, target, at, 1, MPI_LONG, MPI_REPLACE, win);
    MPI_Accumulate(&i, 1, MPI_LONG, target, at, 1, MPI_LONG, MPI_SUM, win);
    MPI_Get_accumulate(NULL, 0, MPI_LONG, &before[i], 1, MPI_LONG, target, at, 1, MPI_LONG,
                       MPI_NO_OP, win);
  }
  MPI_Win_flush_local(target, win);
  for (long i = 0; i < ROUNDS; ++i) CHECK(before[i] == 1001 * i, "%ld is %ld", i, before[i]);
}

static void add_many(int target) {
  static double ones[MANY], had[MANY];
  for (int i = 0; i < MANY; ++i) ones[i] = 1;
  MPI_Request requests[3];
  MPI_Raccumulate(ones, MANY, MPI_DOUBLE, target, AT(many), MANY, MPI_DOUBLE, MPI_SUM, win,
                  &requests[0]);
  MPI_Rget_accumulate(ones, MANY, MPI_DOUBLE, had, MANY, MPI_DOUBLE, target, AT(many), MANY,
                      MPI_DOUBLE, MPI_SUM, win, &requests[1]);
  MPI_Rput(&ones[0], 0, MPI_DOUBLE, target, AT(many), 0, MPI_DOUBLE, win, &requests[2]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < MANY; ++i) {
    CHECK(had[i] >= 1 && had[i] < 2 * ranks, "number %d was %g", i, had[i]);
  }
  MPI_Request request;
  MPI_Rget(had, MANY, MPI_DOUBLE, target, AT(many), MANY, MPI_DOUBLE, win, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < MANY; ++i) CHECK(had[i] >= 2, "number %d is %g", i, had[i]);
}

// Returns whether the library sums characters. Prints no error if it does not.
static bool has_sums_of_chars(void) {
  char from = 1, to = 1;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int code = MPI_Reduce_local(&from, &to, 1, MPI_CHAR, MPI_SUM);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  return code == MPI_SUCCESS && to == 2;
}

static void add_chars(int target) {
  char ones[CHARS];
  memset(ones, 1, sizeof ones);
  MPI_Accumulate(ones, CHARS, MPI_CHAR, target, AT(chars), CHARS, MPI_CHAR, MPI_SUM, win);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Win_allocate(sizeof(Memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  memset(memory, 0, sizeof *memory);
  const bool chars = has_sums_of_chars();
  MPI_Barrier(MPI_COMM_WORLD);
  for (int target = 0; target < ranks; target += ranks - 1) count_under_locks(target);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  for (int target = 0; target < ranks; target += ranks - 1) {
    count_by_elements(target);
    keep_order(target);
    add_many(target);
    if (chars) add_chars(target);
  }
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
  const bool target = rank == 0 || rank == ranks - 1;
  const long wanted = target ? (long)ROUNDS * ranks : 0;
  CHECK(memory->locked == wanted, "locked: %ld", memory->locked);
  CHECK(memory->added == wanted, "added: %ld", memory->added);
  CHECK(memory->swapped == wanted, "swapped: %ld", memory->swapped);
  for (int i = 0; target && i < ranks; ++i) {
    CHECK(memory->own[i] == 1001 * (ROUNDS - 1), "of rank %d: %ld", i, memory->own[i]);
  }
  for (int i = 0; i < MANY; ++i) {
    CHECK(memory->many[i] == (target ? 2 * ranks : 0), "number %d: %g", i, memory->many[i]);
  }
  for (int i = 0; i < CHARS; ++i) {
    CHECK(memory->chars[i] == (target && chars ? ranks : 0), "char %d: %d", i, memory->chars[i]);
  }
  MPI_Win_unlock(rank, win);
  MPI_Win_free(&win);
  return end();
}
