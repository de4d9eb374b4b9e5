// SPDX-License-Identifier: BSD-3-Clause
//
// An MPI_Sendrecv or MPI_Sendrecv_replace whose send is refused receives nothing: the message stays
// for the next receive.
//
// run: ranks 2
#include "check.h"

enum { TOO_HIGH = 999 };

static void expect_message(int value) {
  int got = 0;
  MPI_Recv(&got, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(got == value, "got %d, not %d", got, value);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int value = 1; value <= 2; ++value)
    if (rank == 1) MPI_Send(&value, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    int sent = 7, got = 0;
    int code = MPI_Sendrecv(&sent, 1, MPI_INT, TOO_HIGH, TAG, &got, 1, MPI_INT, 1, TAG,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_RANK, "class %d", class_of(code));
    expect_message(1);
    code = MPI_Sendrecv_replace(&got, 1, MPI_INT, TOO_HIGH, TAG, 1, TAG, MPI_COMM_WORLD,
                                MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_RANK, "class %d in place", class_of(code));
    expect_message(2);
  }
  return end();
}
