// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that get a null pointer in place of requests return the library's error. (The standard ABI
// of MPICH 5 crashes with null, also without help.)
//
// run: ranks 1 not abi
#include "check.h"

static void expect(int code, const char* call) { CHECK(code != MPI_SUCCESS, "%s: success", call); }

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int flag = 0, index = 0;
  expect(MPI_Waitall(1, NULL, MPI_STATUSES_IGNORE), "MPI_Waitall");
  expect(MPI_Testall(1, NULL, &flag, MPI_STATUSES_IGNORE), "MPI_Testall");
  expect(MPI_Waitany(1, NULL, &index, MPI_STATUS_IGNORE), "MPI_Waitany");
  expect(MPI_Testany(1, NULL, &index, &flag, MPI_STATUS_IGNORE), "MPI_Testany");
  expect(MPI_Waitsome(1, NULL, &flag, &index, MPI_STATUSES_IGNORE), "MPI_Waitsome");
  expect(MPI_Testsome(1, NULL, &flag, &index, MPI_STATUSES_IGNORE), "MPI_Testsome");
  expect(MPI_Start(NULL), "MPI_Start");
  expect(MPI_Startall(1, NULL), "MPI_Startall");
  expect(MPI_Cancel(NULL), "MPI_Cancel");
  expect(MPI_Request_free(NULL), "MPI_Request_free");
  return end();
}
