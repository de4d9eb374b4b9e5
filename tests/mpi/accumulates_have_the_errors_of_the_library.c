// SPDX-License-Identifier: BSD-3-Clause
//
// Accumulates with an operation that is not defined for the type, and with different types at the
// origin and at the target. Open MPI reports both errors by the window's error handler, MPICH 5 the
// second. The errors of a helped run must have the same classes, and none may be raised on
// MPI_COMM_WORLD, where it would end the program. The target's memory stays as it is.
//
// run: ranks 2
// run: ranks 4 helped MH_FAKE_NODES=2 MH_WINDOWS=all
#include "check.h"

static int undefined_error(void) { return is_open_mpi() ? MPI_ERR_OP : MPI_SUCCESS; }

static void expect(int code, int wanted, const char* what) {
  CHECK(class_of(code) == wanted, "%s: class %d, not %d", what, class_of(code), wanted);
}

static void undefined(int to, MPI_Win window) {
  float one = 1, got = 0;
  expect(MPI_Accumulate(&one, 1, MPI_FLOAT, to, 0, 1, MPI_FLOAT, MPI_BAND, window),
         undefined_error(), "accumulate");
  expect(MPI_Get_accumulate(&one, 1, MPI_FLOAT, &got, 1, MPI_FLOAT, to, 0, 1, MPI_FLOAT, MPI_BAND,
                            window),
         undefined_error(), "get_accumulate");
}

static void mixed(int to, MPI_Win window) {
  int one = 1;
  if (!is_open_mpi() && !is_mpich5()) return;  // MPICH 4 sees no error
  expect(MPI_Accumulate(&one, 1, MPI_INT, to, 0, 1, MPI_FLOAT, MPI_SUM, window),
         is_open_mpi() ? MPI_ERR_ARG : MPI_ERR_TYPE, "mixed types");
}

// The types differ, but their elements are the same.
static void alike(int to, MPI_Datatype pair, MPI_Win window) {
  if (!is_open_mpi() && !is_mpich5()) return;  // MPICH 4 adds twice
  const float added[2] = {1, 2};
  float got[2] = {0, 0};
  expect(MPI_Accumulate(added, 2, MPI_FLOAT, to, 0, 1, pair, MPI_SUM, window), MPI_SUCCESS, "pair");
  MPI_Win_flush(to, window);
  MPI_Get(got, 2, MPI_FLOAT, to, 0, 1, pair, window);
  MPI_Win_flush(to, window);
  CHECK(got[0] == 6 && got[1] == 7, "%g, %g", (double)got[0], (double)got[1]);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  float* memory;
  MPI_Win window;
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_FLOAT, &pair);
  MPI_Type_commit(&pair);
  MPI_Win_allocate(2 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                   &window);
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  memory[0] = memory[1] = 5;
  MPI_Barrier(MPI_COMM_WORLD);
  const int to = (rank + ranks / 2) % ranks;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, window);
  undefined(to, window);
  mixed(to, window);
  alike(to, pair, window);
  MPI_Win_unlock(to, window);
  MPI_Win_free(&window);
  MPI_Type_free(&pair);
  return end();
}
