// SPDX-License-Identifier: BSD-3-Clause
// run: ranks 2 MH_CORES=1
// run: ranks 2
// run: ranks 2 helped nocma REFUSE=1
// run: ranks 2 helped nocma REFUSE=1 MH_CORES=1
//
// Messages of 64 MB into strided buffers, and messages that are too long, with 24 MB of address
// space left. No step allocates memory of the message's size, also with fewer cores than ranks, and
// if the kernel begins to refuse copies between processes. A step that did would fail for want of
// memory.
#include "check.h"
#include "memory_limit.h"
#include "refusal.h"

enum { BLOCK = 4096, STRIDE = 5120, BLOCKS = 16384, LEFT = 24 << 20 };
static const size_t BYTES = (size_t)BLOCK * BLOCKS;

static void transfer(unsigned char* data, int count, MPI_Datatype type, int key, bool fits) {
  if (rank == 0) {
    fill(data, BYTES, key);
    MPI_Send(data, (int)BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    return;
  }
  memset(data, 0xee, (size_t)STRIDE * BLOCKS);
  MPI_Status status;
  int code = MPI_Recv(data, count, type, 0, TAG, MPI_COMM_WORLD, &status);
  CHECK(class_of(code) == (fits ? MPI_SUCCESS : MPI_ERR_TRUNCATE), "class %d", class_of(code));
  if (!fits) return;
  for (int block = 0; block < BLOCKS; ++block) {
    for (int i = 0; i < BLOCK; i += 61) {
      size_t at = (size_t)block * BLOCK + (size_t)i;
      CHECK(data[(size_t)block * STRIDE + (size_t)i] == byte_of(key, at), "byte %zu", at);
    }
    unsigned char gap = data[(size_t)block * STRIDE + BLOCK + 5];
    CHECK(block == BLOCKS - 1 || gap == 0xee, "a gap was written");
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Datatype strided;
  MPI_Type_vector(BLOCKS, BLOCK, STRIDE, MPI_BYTE, &strided);
  MPI_Type_commit(&strided);
  unsigned char* data = blank((size_t)STRIDE * BLOCKS);
  // After this transfer, the libraries have made their one-time allocations, for which the limit
  // below leaves no memory.
  transfer(data, 1, strided, 1, true);
  MPI_Barrier(MPI_COMM_WORLD);
  limit_memory(LEFT);
  if (getenv("REFUSE") != NULL && refuse_remote_copies() != 0) {
    return skip("seccomp filters cannot be installed here");
  }
  transfer(data, 1, strided, 2, true);
  transfer(data, (int)(BYTES - 1000), MPI_BYTE, 3, false);
  transfer(data, 1, strided, 4, true);
  MPI_Type_free(&strided);
  return end();
}
