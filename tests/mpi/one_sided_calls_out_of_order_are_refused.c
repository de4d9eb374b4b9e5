// SPDX-License-Identifier: BSD-3-Clause
//
// Synchronisation calls and operations that no epoch allows call the window's error handler with
// MPI_ERR_RMA_SYNC and change nothing: valid calls still work afterwards. (Plain MPICH loses the
// puts that follow.)
//
// run: ranks 2 helped
// run: ranks 4 helped MH_FAKE_NODES=2 MH_WINDOWS=all
#include "check.h"

static int code_seen = MPI_SUCCESS;

static void note(MPI_Win* win, int* code, ...) {
  (void)win;
  MPI_Error_class(*code, &code_seen);
}

static MPI_Win window;
static long* memory;
static const long one = 1;

// Checks the error class that a call returned, and that the handler of the window has seen the same
// class.
static void expect(int code, int wanted, const char* what) {
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  const int returned = is_mpich5() ? MPI_SUCCESS : wanted;  // MPICH 5: success after a handler
  CHECK(class == returned, "%s: class %d, not %d", what, class, returned);
  if (wanted != MPI_SUCCESS) CHECK(code_seen == wanted, "%s: no handler was called", what);
  code_seen = MPI_SUCCESS;
}

// Returns the rank that this rank writes to: on the other node in the run with two nodes.
static int partner(void) { return (rank + ranks / 2) % ranks; }

static int put(void) { return MPI_Put(&one, 1, MPI_LONG, partner(), 0, 1, MPI_LONG, window); }

static void refuse_what_is_in_no_epoch(void) {
  expect(put(), MPI_ERR_RMA_SYNC, "put in no epoch");
  expect(MPI_Win_unlock(0, window), MPI_ERR_RMA_SYNC, "unlock without lock");
  expect(MPI_Win_unlock_all(window), MPI_ERR_RMA_SYNC, "unlock_all without lock_all");
#ifndef OPEN_MPI  // Open MPI accepts the call
  expect(MPI_Win_complete(window), MPI_ERR_RMA_SYNC, "complete without start");
#endif
  expect(MPI_Win_wait(window), MPI_ERR_RMA_SYNC, "wait without post");
  expect(MPI_Win_flush(0, window), MPI_ERR_RMA_SYNC, "flush without lock");
  expect(MPI_Win_flush_all(window), MPI_ERR_RMA_SYNC, "flush_all without lock");
}

static void refuse_what_clashes_with_a_lock(void) {
  expect(MPI_Win_lock(MPI_LOCK_SHARED, partner(), 0, window), MPI_SUCCESS, "lock");
#ifndef OPEN_MPI  // Open MPI accepts the call, and then fails
  expect(MPI_Win_lock_all(0, window), MPI_ERR_RMA_SYNC, "lock_all after lock");
#endif
  expect(MPI_Win_fence(0, window), MPI_ERR_RMA_SYNC, "fence after lock");
  expect(put(), MPI_SUCCESS, "put after lock");
  expect(MPI_Win_flush(partner(), window), MPI_SUCCESS, "flush");
  expect(MPI_Win_unlock(partner(), window), MPI_SUCCESS, "unlock");
}

static void refuse_after_the_last_fence(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  expect(MPI_Win_fence(MPI_MODE_NOPRECEDE, window), MPI_SUCCESS, "fence");
  expect(put(), MPI_SUCCESS, "put after a fence");
  expect(MPI_Win_fence(MPI_MODE_NOSUCCEED, window), MPI_SUCCESS, "the last fence");
  expect(put(), MPI_ERR_RMA_SYNC, "put after the last fence");
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Errhandler handler;
  MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  *memory = 0;
  MPI_Win_create_errhandler(note, &handler);
  MPI_Win_set_errhandler(window, handler);
  MPI_Barrier(MPI_COMM_WORLD);
  refuse_what_is_in_no_epoch();
  refuse_what_clashes_with_a_lock();
  refuse_after_the_last_fence();
  CHECK(*memory == 1, "the window has %ld", *memory);
  MPI_Errhandler_free(&handler);
  MPI_Win_free(&window);
  return end();
}
