// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 operates on a window of a rank on another node. The operations complete while that rank
// computes without MPI calls, and while it waits inside the MPI library. It waits there in a
// broadcast whose root, rank 0, comes only after its operation, and in the opening of a file.
// Without the target's server thread, rank 0 would wait too long in the first case and for ever in
// the other two.
//
// run: ranks 4 helped MH_FAKE_NODES=2 MH_WINDOWS=all
#include "check.h"

enum { COMPUTES_S = 3 };

static MPI_Win win;
static long* memory;

static void add_to(int target) {
  const long one = 1;
  MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
  MPI_Accumulate(&one, 1, MPI_LONG, target, 0, 1, MPI_LONG, MPI_SUM, win);
  MPI_Win_unlock(target, win);
}

static void compute(double seconds) {
  const double end = MPI_Wtime() + seconds;
  while (MPI_Wtime() < end) continue;
}

static void while_it_computes(int target) {
  if (rank == target) {
    compute(COMPUTES_S);
  } else if (rank == 0) {
    const double begin = MPI_Wtime();
    add_to(target);
    const double passed = MPI_Wtime() - begin;
    CHECK(passed < COMPUTES_S / 2.0, "after %g s", passed);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void while_it_is_in_a_broadcast(int target) {
  int sent = rank == 0 ? 17 : 0;
  if (rank == 0) {
    pass_time(10e-3);  // the other ranks enter first
    add_to(target);
  }
  MPI_Bcast(&sent, 1, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(sent == 17, "got %d", sent);
}

static void while_it_opens_a_file(int target) {
  char name[64];
  snprintf(name, sizeof name, "/tmp/mh-test-%d", (int)getpid());
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    pass_time(10e-3);
    add_to(target);
  }
  MPI_File file;
  MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                MPI_INFO_NULL, &file);
  MPI_File_close(&file);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  *memory = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const int target = ranks - 1;
  while_it_computes(target);
  while_it_is_in_a_broadcast(target);
  while_it_opens_a_file(target);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
  CHECK(*memory == (rank == target ? 3 : 0), "%ld", *memory);
  MPI_Win_unlock(rank, win);
  MPI_Win_free(&win);
  return end();
}
