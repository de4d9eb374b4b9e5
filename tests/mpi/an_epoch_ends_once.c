// SPDX-License-Identifier: BSD-3-Clause
//
// A call that the state of a post-start epoch does not allow fails with MPI_ERR_RMA_SYNC, as in the
// MPI library: a second start, a second complete and, with MPICH, MPI_Win_sync without a lock. A
// window that carried out the second complete would end the target's epoch too early. A lock of
// MPI_PROC_NULL succeeds under MPICH and is an error under Open MPI.
//
// run: ranks 2
// run: ranks 4 helped MH_FAKE_NODES=2 MH_WINDOWS=all
#include "check.h"

static void expect(int code, int wanted, const char* what) {
  CHECK(class_of(code) == wanted, "%s: class %d, not %d", what, class_of(code), wanted);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  static long memory;
  MPI_Win window;
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  if (!is_open_mpi()) expect(MPI_Win_sync(window), MPI_ERR_RMA_SYNC, "sync in no epoch");
  int nobody = is_open_mpi() ? MPI_ERR_RANK : MPI_SUCCESS;
  expect(MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, window), nobody, "lock of nobody");
  expect(MPI_Win_unlock(MPI_PROC_NULL, window), nobody, "unlock of nobody");
  expect(MPI_Win_post(world, 0, window), MPI_SUCCESS, "post");
  expect(MPI_Win_start(world, 0, window), MPI_SUCCESS, "start");
  expect(MPI_Win_start(world, 0, window), MPI_ERR_RMA_SYNC, "the second start");
  expect(MPI_Win_complete(window), MPI_SUCCESS, "complete");
  expect(MPI_Win_complete(window), MPI_ERR_RMA_SYNC, "the second complete");
  expect(MPI_Win_wait(window), MPI_SUCCESS, "wait");
  MPI_Barrier(MPI_COMM_WORLD);
  expect(MPI_Win_lock_all(0, window), MPI_SUCCESS, "lock_all");
  expect(MPI_Win_sync(window), MPI_SUCCESS, "sync");
  expect(MPI_Win_unlock_all(window), MPI_SUCCESS, "unlock_all");
  MPI_Win_free(&window);
  MPI_Group_free(&world);
  return end();
}
