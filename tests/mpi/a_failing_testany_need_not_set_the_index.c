// SPDX-License-Identifier: BSD-3-Clause
//
// A failing MPI_Testany or MPI_Waitany returns an error and need not set the index. A receive under
// way at that time still gets its message. The index has the value FAR before the call: a wrapper
// that used it after a failed call would read behind the array of requests. Or the index has the
// number of the receive under way: a wrapper that used it would end that receive. (The standard ABI
// of MPICH 5 crashes with a negative count, also without help.)
//
// run: ranks 2 not abi
#include "check.h"

enum { FAR = 1 << 30 };

static void check_failure(const char* call, int code) {
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_COUNT || class == MPI_ERR_ARG, "%s: class %d", call, class);
}

// The index has the number of a request under way, and another handle is invalid.
static void fail_beside(MPI_Request request) {
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
  (void)request;  // Open MPI 5 crashes with such a handle, also without help
  return;
#endif
  MPI_Request requests[2] = {request};
  memset(&requests[1], 0, sizeof requests[1]);
  int index = 0, flag = 1;
  int code = MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
  CHECK(class_of(code) == MPI_ERR_REQUEST, "MPI_Testany: class %d", class_of(code));
  index = 0;
  code = MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
  CHECK(class_of(code) == MPI_ERR_REQUEST, "MPI_Waitany: class %d", class_of(code));
}

static void fail(MPI_Request* request) {
  fail_beside(*request);
  int index = FAR, flag = 1;
  check_failure("MPI_Testany", MPI_Testany(-1, request, &index, &flag, MPI_STATUS_IGNORE));
  index = FAR;
  check_failure("MPI_Waitany", MPI_Waitany(-1, request, &index, MPI_STATUS_IGNORE));
}

static void receive(size_t bytes) {
  unsigned char *data = blank(bytes), *sent = filled(bytes, 1);
  MPI_Request request;
  MPI_Irecv(data, (int)bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
  fail(&request);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(memcmp(data, sent, bytes) == 0, "%zu bytes are wrong", bytes);
  free(sent);
  free(data);
}

static void send(size_t bytes) {
  unsigned char* data = filled(bytes, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Send(data, (int)bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const size_t sizes[] = {200, LARGE};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    if (rank == 0) send(sizes[i]);
    if (rank == 1) receive(sizes[i]);
  }
  return end();
}
