// SPDX-License-Identifier: BSD-3-Clause
//
// Ends in the way its argument names, on one rank, while the others are in the middle of large
// messages or wait for it: test_endings.py compares what the launcher makes of it.
//
// run: by test_endings.py
#include "check.h"

static MPI_Datatype rows;  // half of LARGE bytes
static bool in_rows;       // messages are noncontiguous

static void exchange(int times) {
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
  exchange(1 << 30);  // never ends by itself
  return 0;
}
