// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 1 ends in the way that the first argument names, while the other ranks exchange large
// messages with rank 1 or wait for it. test_endings.py compares the launcher's exit codes, helped
// and plain.
//
// run: by test_endings.py
#include "../mpi/check.h"

static MPI_Datatype rows;  // LARGE / 2 bytes of data in LARGE bytes of memory
static bool in_rows;       // messages are noncontiguous
static bool in_windows;    // accumulates under locks replace messages

static void accumulate(int times) {
  static unsigned char bytes[LARGE];
  static MPI_Win window = MPI_WIN_NULL;
  unsigned char* memory = NULL;
  if (window == MPI_WIN_NULL) {
    MPI_Win_allocate(LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  }
  for (int i = 0; i < times; ++i) {
    const int target = (rank + i) % ranks;
    MPI_Win_lock(i % 3 == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, window);
    MPI_Accumulate(bytes, LARGE, MPI_BYTE, target, 0, LARGE, MPI_BYTE, MPI_BXOR, window);
    MPI_Win_unlock(target, window);
  }
}

static void exchange(int times) {
  if (in_windows) {
    accumulate(times);
    return;
  }
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int i = 0; i < times; ++i) {
    unsigned char *out = filled(LARGE, rank), *in = blank(LARGE);
    int count = in_rows ? 1 : LARGE;
    MPI_Datatype type = in_rows ? rows : MPI_BYTE;
    MPI_Sendrecv(out, count, type, next, TAG, in, count, type, last, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    free(in);
    free(out);
  }
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  begin(&argc, &argv);
  in_windows = argc > 2 && strcmp(argv[2], "windows") == 0;
  in_rows = argc > 2 && strcmp(argv[2], "rows") == 0;
  MPI_Type_vector(LARGE / 200, 100, 200, MPI_BYTE, &rows);
  MPI_Type_commit(&rows);
  exchange(3);
  printf("READY\n");
  fflush(stdout);
  if (strcmp(how, "wait") == 0) exchange(1 << 30);
  if (strcmp(how, "barrier") == 0 && rank == 0) MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(how, "barrier") == 0) sleep(1000);
  if (rank == 1) {
    if (strcmp(how, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 42);
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    if (strcmp(how, "segv") == 0) raise(SIGSEGV);
    if (strcmp(how, "exit") == 0) exit(5);
    if (strcmp(how, "_exit") == 0) _exit(6);
    if (strcmp(how, "return") == 0) {
      MPI_Finalize();
      return 9;
    }
  }
  if (strcmp(how, "return") == 0) {
    MPI_Finalize();
    return 0;
  }
  exchange(1 << 30);  // no rank ends here by itself
  return 0;
}
