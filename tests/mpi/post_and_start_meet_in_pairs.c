// SPDX-License-Identifier: BSD-3-Clause
//
// Post, start, complete and wait in a ring: each rank exposes its memory to its left neighbour and
// accesses its right neighbour, many times, sometimes late. The target calls MPI_Win_wait or
// MPI_Win_test, with and without assertions. An origin writes only after its target has posted: an
// earlier write would change the memory before the target's check. A lost post or complete hangs.
//
// run: ranks 3
// run: ranks 2 MH_CORES=2
// run: ranks 3 helped MH_FAKE_NODES=2
// run: ranks 4 helped MH_FAKE_NODES=2 MH_WINDOWS=all
// run: ranks 3 helped MH_FAKE_NODES=2 MH_WINDOWS=all says "a node has one rank"
#include "check.h"

enum { ROUNDS = 84 };  // twice each combination of late rank, assertion and wait or test

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int left = (rank + ranks - 1) % ranks;
  const int right = (rank + 1) % ranks;
  long* memory = NULL;
  MPI_Win win;
  MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  MPI_Group all, to_left, to_right;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &left, &to_left);
  MPI_Group_incl(all, 1, &right, &to_right);
  memory[0] = memory[1] = 0;
  for (long round = 1; round <= ROUNDS; ++round) {
    const int assert = round % 3 == 0 ? MPI_MODE_NOPUT : 0;
    CHECK(memory[1] == round - 1, "round %ld: written to before it was exposed", round);
    if ((round + rank) % 7 == 0) pass_time(100e-6);
    MPI_Win_post(to_left, assert & ~MPI_MODE_NOPUT, win);
    MPI_Win_start(to_right, 0, win);
    const long one = 1;
    MPI_Accumulate(&one, 1, MPI_LONG, right, 0, 1, MPI_LONG, MPI_SUM, win);
    MPI_Put(&round, 1, MPI_LONG, right, 1, 1, MPI_LONG, win);
    MPI_Win_complete(win);
    if (round % 2 == 0) {
      MPI_Win_wait(win);
    } else {
      int over = 0;
      while (!over) MPI_Win_test(win, &over);
    }
    CHECK(memory[0] == round && memory[1] == round, "round %ld: %ld, %ld", round, memory[0],
          memory[1]);
  }
  MPI_Group_free(&all);
  MPI_Group_free(&to_left);
  MPI_Group_free(&to_right);
  MPI_Win_free(&win);
  return end();
}
