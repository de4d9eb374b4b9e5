// SPDX-License-Identifier: BSD-3-Clause
//
// An MPI_Fetch_and_op with MPI_DATATYPE_NULL returns an error through the handler of the window,
// although errors of MPI_COMM_WORLD end the program.
//
// run: ranks 2
#include "check.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  long *data, one = 1, had = 0;
  MPI_Win window;
  MPI_Win_allocate(sizeof *data, sizeof *data, MPI_INFO_NULL, MPI_COMM_WORLD, &data, &window);
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  MPI_Win_lock_all(0, window);
  int code = MPI_Fetch_and_op(&one, &had, MPI_DATATYPE_NULL, 0, 0, MPI_SUM, window);
  CHECK(class_of(code) == MPI_ERR_TYPE, "class %d", class_of(code));
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  return end();
}
