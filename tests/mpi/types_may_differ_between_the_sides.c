// SPDX-License-Identifier: BSD-3-Clause
//
// The two sides of a large message may have different types: strided, or derived but contiguous, at
// an address or at MPI_BOTTOM. Every double is in its place, no gap is written, and MPI_Get_count
// and MPI_Get_elements are right in each type.
//
// run: ranks 2
// run: ranks 2 helped MH_MEMORY=none
// run: ranks 2 helped MH_FAKE_NODES=2
#include "check.h"

enum { BLOCKS = 4000, LENGTH = 32, STRIDE = 48, DOUBLES = BLOCKS * LENGTH };

static double value(int key, int i) { return key * 1e7 + i; }

static void send_strided(int key, bool strided, bool bottom) {
  double* data = malloc(sizeof(double) * BLOCKS * STRIDE);
  int stride = strided ? STRIDE : LENGTH;
  for (int i = 0; i < DOUBLES; ++i) data[i / LENGTH * stride + i % LENGTH] = value(key, i);
  MPI_Datatype type, absolute;
  MPI_Type_vector(BLOCKS, LENGTH, stride, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  if (bottom) {
    MPI_Aint at;
    int one = 1;
    MPI_Get_address(data, &at);
    MPI_Type_create_hindexed(1, &one, &at, type, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Send(MPI_BOTTOM, 1, absolute, 1, TAG, MPI_COMM_WORLD);
    MPI_Type_free(&absolute);
  } else {
    MPI_Send(data, 1, type, 1, TAG, MPI_COMM_WORLD);
  }
  MPI_Type_free(&type);
  free(data);
}

static void check_counts(MPI_Status* status, MPI_Datatype type) {
  int whole = -1, doubles = -1, elements = -1;
  MPI_Get_count(status, type, &whole);
  MPI_Get_count(status, MPI_DOUBLE, &doubles);
  MPI_Get_elements(status, type, &elements);
  CHECK(whole == 1 && doubles == DOUBLES && elements == DOUBLES, "counts %d, %d, %d", whole,
        doubles, elements);
}

static void receive_strided(int key, bool strided, bool bottom) {
  double* data = malloc(sizeof(double) * BLOCKS * STRIDE);
  int stride = strided ? STRIDE : LENGTH;
  for (int i = 0; i < BLOCKS * STRIDE; ++i) data[i] = -1;
  MPI_Datatype type;
  MPI_Aint at = 0;
  int one = 1;
  if (bottom) MPI_Get_address(data, &at);
  MPI_Datatype vector;
  MPI_Type_vector(BLOCKS, LENGTH, stride, MPI_DOUBLE, &vector);
  MPI_Type_create_hindexed(1, &one, &at, vector, &type);
  MPI_Type_commit(&type);
  MPI_Status status;
  MPI_Recv(bottom ? MPI_BOTTOM : data, 1, type, 0, TAG, MPI_COMM_WORLD, &status);
  check_counts(&status, type);
  int next = 0;
  for (int i = 0; i < BLOCKS * STRIDE; ++i) {
    bool inside = i % stride < LENGTH && i / stride < BLOCKS;
    double want = inside ? value(key, next++) : -1;
    CHECK(data[i] == want, "double %d is %g, not %g", i, data[i], want);
  }
  MPI_Type_free(&vector);
  MPI_Type_free(&type);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int way = 0; way < 16; ++way) {
    if (rank == 0) send_strided(way, way & 1, way & 2);
    if (rank == 1) receive_strided(way, way & 4, way & 8);
  }
  return end();
}
