// SPDX-License-Identifier: BSD-3-Clause
//
// The user's error handler is called for the truncation of a large message, with the message's
// communicator and MPI_ERR_TRUNCATE. Wrong arguments call it, too, once for each error, as without
// Manyhands. MPICH 5 returns success once a handler has returned; its standard ABI passes error
// classes of MPICH's own numbers to handlers.
//
// run: ranks 2
#include "check.h"

#if defined(MPI_ABI_VERSION) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 50000000)
static const bool codes_are_told = false;
#else
static const bool codes_are_told = true;
#endif

static int calls, last_class;
static MPI_Comm last_comm;

static void handler(MPI_Comm* comm, int* code, ...) {
  ++calls;
  last_comm = *comm;
  last_class = class_of(*code);
}

static bool is(int code, int class) { return !codes_are_told || class_of(code) == class; }

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm comm;
  MPI_Errhandler errhandler;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(handler, &errhandler);
  MPI_Comm_set_errhandler(comm, errhandler);
  unsigned char* data = filled(LARGE, 3);
  if (rank == 0) {
    MPI_Send(data, LARGE, MPI_BYTE, 1, TAG, comm);
    CHECK(calls == 0, "the sender's handler was called with %d", last_class);
  } else {
    int code = MPI_Recv(data, 5000, MPI_BYTE, 0, TAG, comm, MPI_STATUS_IGNORE);
    CHECK(calls == 1, "the handler was called %d times", calls);
    CHECK(!codes_are_told || (class_of(code) == MPI_ERR_TRUNCATE && last_class == MPI_ERR_TRUNCATE),
          "class %d", last_class);
    CHECK(last_comm == comm, "the handler got another communicator");
  }
  calls = 0;
  int code = MPI_Send(data, LARGE, MPI_BYTE, ranks + 3, TAG, comm);
  CHECK(calls == 1 && is(code, MPI_ERR_RANK), "a wrong rank: %d calls, class %d", calls,
        class_of(code));
  code = MPI_Send(data, -1, MPI_BYTE, 1 - rank, TAG, comm);
  CHECK(calls == 2 && is(code, MPI_ERR_COUNT), "a wrong count: %d calls, class %d", calls,
        class_of(code));
  code = MPI_Recv(data, LARGE, MPI_BYTE, 1 - rank, -99, comm, MPI_STATUS_IGNORE);
  CHECK(calls == 3 && is(code, MPI_ERR_TAG), "a wrong tag: %d calls, class %d", calls,
        class_of(code));
  code = MPI_Send(data, LARGE, MPI_DATATYPE_NULL, 1 - rank, TAG, comm);
  CHECK(calls == 4 && is(code, MPI_ERR_TYPE), "a null type: %d calls, class %d", calls,
        class_of(code));
  MPI_Errhandler_free(&errhandler);
  MPI_Comm_free(&comm);
  return end();
}
