// SPDX-License-Identifier: BSD-3-Clause
//
// The first rank has no free descriptor while the ranks make windows, so it cannot make memory that
// they share. The other ranks do not wait for such memory. Once the rank has descriptors again,
// windows are right as before. Open MPI itself makes no window without a descriptor.
//
// run: ranks 2 not openmpi4,openmpi5
// run: ranks 3 not openmpi4,openmpi5 MH_CORES=4
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

enum { WINDOWS = 6, PERMITTED = 1100 };
static const double MOST_SECONDS = 3;  // a wait for memory that never comes lasts a second

static int taken[PERMITTED];
static int number;  // the window's memory

static int take_all_descriptors(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur > PERMITTED) limit.rlim_cur = PERMITTED;
  setrlimit(RLIMIT_NOFILE, &limit);
  int count = 0;
  while (count < PERMITTED && (taken[count] = open("/dev/null", O_RDONLY)) >= 0) ++count;
  return count;
}

static void use_windows(void) {
  for (int i = 0; i < WINDOWS; ++i) {
    MPI_Win window;
    number = -1;
    MPI_Win_create(&number, sizeof number, sizeof number, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    CHECK(number == (rank + ranks - 1) % ranks, "it is %d", number);
    MPI_Win_free(&window);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int count = rank == 0 ? take_all_descriptors() : 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = MPI_Wtime();
  use_windows();
  const double seconds = MPI_Wtime() - begun;
  CHECK(seconds < MOST_SECONDS, "%d windows took %.1f s", WINDOWS, seconds);
  for (int i = 0; i < count; ++i) close(taken[i]);
  use_windows();
  return end();
}
