// SPDX-License-Identifier: BSD-3-Clause
//
// Blocking receives that are too short, of short and long messages, call the error handler of their
// communicator once. Were the error raised on MPI_COMM_WORLD, whose handler is
// MPI_ERRORS_ARE_FATAL, the job would end. A pause before each message makes a helped rank look for
// work while it waits.
//
// run: ranks 2
// run: ranks 2 MH_MEMORY=none
#include "check.h"

static int calls;

// Counts its calls. MPICH 5 returns success from the failed call once a handler of the program has
// returned.
static void handler(MPI_Comm* comm, int* code, ...) {
  (void)comm, (void)code;
  ++calls;
}

static void exchange(MPI_Comm comm, int tag, int bytes, bool returns) {
  unsigned char* data = blank((size_t)bytes + 100);  // Open MPI may write the whole message
  for (int way = 0; way < 3; ++way) {
    usleep(2000);
    if (rank == 0) {
      MPI_Send(data, bytes, MPI_BYTE, 1, tag, comm);
      continue;
    }
    MPI_Status status;
    int code = MPI_SUCCESS;
    calls = 0;
    if (way == 0) code = MPI_Recv(data, bytes / 10, MPI_BYTE, 0, tag, comm, &status);
    if (way == 1) {
      code = MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, tag, data, bytes / 10, MPI_BYTE, 0, tag,
                          comm, &status);
    }
    if (way == 2) {
      MPI_Probe(0, tag, comm, &status);
      code = MPI_Recv(data, bytes / 10, MPI_BYTE, 0, tag, comm, &status);
    }
    CHECK(!returns || class_of(code) == MPI_ERR_TRUNCATE, "way %d: class %d", way, class_of(code));
    CHECK(returns || calls == 1, "way %d: the handler was called %d times", way, calls);
  }
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  static const int lengths[] = {50, 1000, LARGE};
  MPI_Comm comm;
  MPI_Errhandler noting;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(handler, &noting);
  for (int i = 0; i < 3; ++i) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    exchange(comm, TAG + i, lengths[i], true);
    MPI_Comm_set_errhandler(comm, noting);
    exchange(comm, TAG + i, lengths[i], false);
  }
  MPI_Errhandler_free(&noting);
  MPI_Comm_free(&comm);
  return end();
}
