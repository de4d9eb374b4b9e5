// SPDX-License-Identifier: BSD-3-Clause
// run: ranks 2
// run: ranks 2 MH_CORES=1
//
// MPI_Sendrecv_replace of 64 MB, contiguous and strided, with 24 MB of address space left: the copy
// of the outgoing data does not fit. The call returns an error, the buffer is unchanged, and the
// next exchange succeeds. Without the check of the allocation, the process would crash.
#include "check.h"
#include "memory_limit.h"

enum { BLOCK = 4096, STRIDE = 5120, BLOCKS = 16384, LEFT = 24 << 20, SHORT = 100 };
static const size_t BYTES = (size_t)STRIDE * BLOCKS;

static int exchange(unsigned char* data, int count, MPI_Datatype type) {
  int other = 1 - rank;
  return MPI_Sendrecv_replace(data, count, type, other, TAG, other, TAG, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE);
}

static void has_no_room(unsigned char* data, int count, MPI_Datatype type) {
  CHECK(exchange(data, count, type) != MPI_SUCCESS, "there was room");
  check_bytes(data, BYTES, rank, "unchanged");
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Datatype strided;
  MPI_Type_vector(BLOCKS, BLOCK, STRIDE, MPI_BYTE, &strided);
  MPI_Type_commit(&strided);
  unsigned char* data = blank(BYTES);
  fill(data, BYTES, rank);
  // After this exchange, the libraries have made their one-time allocations, for which the limit
  // below leaves no memory.
  CHECK(exchange(data, SHORT, MPI_BYTE) == MPI_SUCCESS, "a short one");
  fill(data, BYTES, rank);
  MPI_Barrier(MPI_COMM_WORLD);
  limit_memory(LEFT);
  has_no_room(data, (int)BYTES, MPI_BYTE);
  has_no_room(data, 1, strided);
  CHECK(exchange(data, SHORT, MPI_BYTE) == MPI_SUCCESS, "a short one");
  check_bytes(data, SHORT, 1 - rank, "exchanged");
  MPI_Type_free(&strided);
  free(data);
  return end();
}
