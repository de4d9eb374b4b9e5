// SPDX-License-Identifier: BSD-3-Clause
//
// Base, size, displacement unit, flavor and model of windows of every kind are as requested,
// whether Manyhands or the library carries out the operations. Each rank has its own displacement
// unit. Operations on ranks without memory, on MPI_PROC_NULL, and of zero bytes have no effect.
//
// run: ranks 3
// run: ranks 3 heap
// run: ranks 3 helped MH_MEMORY=none
// run: ranks 3 helped MH_WINDOWS=none
// run: ranks 5 helped MH_FAKE_NODES=2 MH_WINDOWS=all
#include "check.h"

static void check_attribute(MPI_Win win, int key, long wanted, const char* what) {
  void* value = NULL;
  int flag = 0;
  MPI_Win_get_attr(win, key, &value, &flag);
  CHECK(flag, "no %s", what);
  const bool is_size = key == MPI_WIN_SIZE;
  const long got = is_size ? (long)*(MPI_Aint*)value : *(int*)value;
  CHECK(got == wanted, "%s is %ld, not %ld", what, got, wanted);
}

static void check_attributes(MPI_Win win, const void* base, long bytes, int unit, int flavor) {
  void* value = NULL;
  int flag = 0;
  MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag);
  CHECK(flag && (value == base || bytes == 0), "base is %p, not %p", value, base);
  check_attribute(win, MPI_WIN_SIZE, bytes, "size");
  check_attribute(win, MPI_WIN_DISP_UNIT, unit, "displacement unit");
  check_attribute(win, MPI_WIN_CREATE_FLAVOR, flavor, "flavor");
}

// Uses a window in which rank r has a displacement unit of r + 1 bytes and the last rank has no
// memory.
static void play(MPI_Win win, unsigned char* memory, int bytes) {
  for (int i = 0; i < bytes; ++i) memory[i] = 0;
  const unsigned char marks[2] = {(unsigned char)(rank + 1), 99};
  unsigned char nothing[1];
  MPI_Win_fence(0, win);
  for (int target = 0; target + 1 < ranks; ++target) {
    MPI_Put(marks, 1, MPI_BYTE, target, 2 + rank, 1, MPI_BYTE, win);
    MPI_Put(marks, 0, MPI_BYTE, target, 0, 0, MPI_BYTE, win);
    MPI_Get_accumulate(marks, 0, MPI_BYTE, nothing, 0, MPI_BYTE, target, 0, 0, MPI_BYTE, MPI_SUM,
                       win);
  }
  MPI_Put(marks, 2, MPI_BYTE, MPI_PROC_NULL, 0, 2, MPI_BYTE, win);
  MPI_Accumulate(marks, 2, MPI_BYTE, MPI_PROC_NULL, 0, 2, MPI_BYTE, MPI_REPLACE, win);
  MPI_Put(marks, 0, MPI_BYTE, ranks - 1, 0, 0, MPI_BYTE, win);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  for (int i = 0; i < bytes; ++i) {
    const int unit = rank + 1;
    const bool marked = i % unit == 0 && i / unit >= 2 && i / unit < 2 + ranks;
    CHECK(memory[i] == (marked ? i / unit - 1 : 0), "byte %d is %d", i, memory[i]);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int bytes = rank + 1 == ranks ? 0 : 96;  // with another length, MPICH reports another base
  const int unit = rank + 1;
  unsigned char* memory = NULL;
  MPI_Win win;

  MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  check_attributes(win, memory, bytes, unit, MPI_WIN_FLAVOR_ALLOCATE);
  play(win, memory, bytes);
  MPI_Win_free(&win);

  MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  check_attributes(win, memory, bytes, unit, MPI_WIN_FLAVOR_SHARED);
  play(win, memory, bytes);
  MPI_Win_free(&win);

  unsigned char* own = malloc(100);
  MPI_Win_create(own, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  check_attributes(win, own, bytes, unit, MPI_WIN_FLAVOR_CREATE);
  play(win, own, bytes);
  MPI_Win_set_name(win, "named");
  char name[MPI_MAX_OBJECT_NAME];
  int length = 0;
  MPI_Win_get_name(win, name, &length);
  CHECK(strcmp(name, "named") == 0, "the name is %s", name);
  MPI_Win_free(&win);
  CHECK(win == MPI_WIN_NULL, "the handle is still there");
  free(own);
  return end();
}
