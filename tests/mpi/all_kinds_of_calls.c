// SPDX-License-Identifier: BSD-3-Clause
// run: by test_bindings.py
//
// Makes a sample of the helped calls, for tests of unusual environments: large messages, contiguous
// or not, some of them while their sender is in the MPI library; blocking collectives; fences.
#include "check.h"

enum { BLOCKS = 4096, BLOCK = 64, STRIDE = 160, BYTES = BLOCKS * BLOCK, EXTENT = BLOCKS * STRIDE };

static void contiguous(int next, int last, int key) {
  unsigned char *out = filled(LARGE, key + rank), *in = blank(LARGE);
  MPI_Request request;
  MPI_Irecv(in, LARGE, MPI_BYTE, last, TAG, MPI_COMM_WORLD, &request);
  MPI_Send(out, LARGE, MPI_BYTE, next, TAG, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check_bytes(in, LARGE, key + last, "contiguous");
  free(in);
  free(out);
}

static void noncontiguous(MPI_Datatype strided, int key) {
  unsigned char* data = blank(EXTENT);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) {
    for (size_t i = 0; i < BYTES; ++i) data[i / BLOCK * STRIDE + i % BLOCK] = byte_of(key, i);
    MPI_Isend(data, 1, strided, 1, TAG, MPI_COMM_WORLD, &request);
  } else if (rank == 1) {
    MPI_Recv(data, 1, strided, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  unsigned char* large = blank(4 * LARGE);
  MPI_Bcast(large, 4 * LARGE, MPI_BYTE, 0, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (size_t i = 0; i < BYTES && rank == 1; ++i) {
    CHECK(data[i / BLOCK * STRIDE + i % BLOCK] == byte_of(key, i), "byte %zu", i);
  }
  free(large);
  free(data);
}

static void fences(int next, int key) {
  MPI_Win win;
  int* base = calloc(16, sizeof *base);
  MPI_Win_create(base, 16 * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  int value = key + rank, sum = 0, one = 1;
  MPI_Win_fence(0, win);
  MPI_Put(&value, 1, MPI_INT, next, 0, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  CHECK(*base == key + (rank + ranks - 1) % ranks, "%d was put here", *base);
  MPI_Win_free(&win);
  free(base);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == ranks, "sum %d", sum);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Datatype strided;
  MPI_Type_vector(BLOCKS, BLOCK, STRIDE, MPI_BYTE, &strided);
  MPI_Type_commit(&strided);
  for (int round = 0; round < 4; ++round) {
    contiguous((rank + 1) % ranks, (rank + ranks - 1) % ranks, round);
    noncontiguous(strided, round + 10);
    fences((rank + 1) % ranks, round + 20);
  }
  MPI_Type_free(&strided);
  return end();
}
