// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Sendrecv_replace with a type that has gaps and more bytes than an int can count: rank 0
// exchanges with itself. Without a receiver the call needs no memory for a copy.
//
// run: ranks 2 helped MH_CORES=2
#include "check.h"

enum { BLOCK = 1 << 20, GAP = 64, STRIDE = BLOCK + GAP, BLOCKS = 2060 };

static MPI_Datatype vector_of(int blocks, int stride) {
  MPI_Datatype made;
  MPI_Type_create_hvector(blocks, BLOCK, stride, MPI_BYTE, &made);
  MPI_Type_commit(&made);
  return made;
}

// A thousand times as much data as memory: each block is the same.
static void send_to_nobody(void) {
  MPI_Datatype many = vector_of(100 * BLOCKS, 0);
  char* block = calloc(BLOCK, 1);
  MPI_Sendrecv_replace(block, 1, many, MPI_PROC_NULL, TAG, MPI_PROC_NULL, TAG, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  free(block);
  MPI_Type_free(&many);
}

static void exchange(void) {
  MPI_Datatype gaps = vector_of(BLOCKS, STRIDE);
  unsigned char* data = malloc((size_t)BLOCKS * STRIDE);
  CHECK(data != NULL, "no memory");
  memset(data, 0xee, (size_t)BLOCKS * STRIDE);
  for (int i = 0; i < BLOCKS; ++i) memset(data + (size_t)i * STRIDE, i % 200, BLOCK);
  MPI_Status status;
  MPI_Count bytes = 0;
  MPI_Sendrecv_replace(data, 1, gaps, 0, TAG, 0, TAG, MPI_COMM_WORLD, &status);
  MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  CHECK(bytes == (MPI_Count)BLOCKS * BLOCK, "%lld bytes", (long long)bytes);
  for (int i = 0; i < BLOCKS; ++i) {
    const unsigned char* block = data + (size_t)i * STRIDE;
    CHECK(block[0] == i % 200 && memcmp(block, block + 1, BLOCK - 1) == 0, "block %d", i);
    check_blank(block, BLOCK, STRIDE, "a gap");
  }
  free(data);
  MPI_Type_free(&gaps);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const double available = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  int enough = available > 6e9;
  MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (!enough) return skip("less than 6 GB of memory are free");
  send_to_nobody();
  if (rank == 0) exchange();
  return end();
}
