// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 accumulates 8 MB into the memory of rank TO (default 1), ROUNDS times. The other ranks
// wait in a fence (WAITERS=fence), a barrier or a receive. With TARGET=sleeps, the target first
// sleeps outside MPI, so its core is free. With SHAPE=rows, the numbers go into every second row of
// a matrix. With KIND=created, the window's memory comes from malloc. The program checks the
// result; test_who_accumulates.py checks which rank computed it.
//
// run: by test_who_accumulates.py
#include "check.h"

enum { NUMBERS = 1 << 20, ROW = 512 };

static const char* setting(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value == NULL ? otherwise : value;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int rounds = atoi(setting("ROUNDS", "10"));
  const char* waiters = setting("WAITERS", "fence");
  const bool rows = strcmp(setting("SHAPE", "contiguous"), "rows") == 0;
  const bool created = strcmp(setting("KIND", "allocated"), "created") == 0;
  const bool sleeps = strcmp(setting("TARGET", "waits"), "sleeps") == 0;
  const int target = atoi(setting("TO", "1"));
  MPI_Datatype there;
  MPI_Type_vector(NUMBERS / ROW, ROW, rows ? 2 * ROW : ROW, MPI_DOUBLE, &there);
  MPI_Type_commit(&there);
  const size_t bytes = 2 * (size_t)NUMBERS * sizeof(double);
  double* memory = NULL;
  MPI_Win win;
  if (created) {
    memory = malloc(bytes);
    MPI_Win_create(memory, (MPI_Aint)bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  } else {
    MPI_Win_allocate((MPI_Aint)bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  }
  for (int i = 0; i < 2 * NUMBERS; ++i) memory[i] = i;
  double* added = malloc(NUMBERS * sizeof(double));
  for (int i = 0; i < NUMBERS; ++i) added[i] = 2 * i + 1;
  MPI_Win_fence(0, win);
  for (int round = 0; round < rounds; ++round) {
    if (rank == target && sleeps) usleep(2000);
    if (rank == 0) {
      MPI_Accumulate(added, NUMBERS, MPI_DOUBLE, target, 0, 1, there, MPI_SUM, win);
      for (int i = 1; i < ranks; ++i) MPI_Send(NULL, 0, MPI_BYTE, i, TAG, MPI_COMM_WORLD);
    } else if (strcmp(waiters, "recv") == 0) {
      MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(waiters, "barrier") == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0 && strcmp(waiters, "barrier") == 0) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    if (rank != 0 && strcmp(waiters, "fence") == 0) {
      MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  for (int i = 0; rank == target && i < NUMBERS; ++i) {
    const int at = rows ? i / ROW * 2 * ROW + i % ROW : i;
    const double wanted = at + (double)rounds * added[i];
    CHECK(memory[at] == wanted, "number %d is %g, not %g", at, memory[at], wanted);
  }
  MPI_Type_free(&there);
  MPI_Win_free(&win);
  if (created) free(memory);
  free(added);
  return end();
}
