// SPDX-License-Identifier: BSD-3-Clause
// The times of each rank in the repetitions of a loop, and the output line of a loop.
#ifndef MH_BENCH_STAMPS_H
#define MH_BENCH_STAMPS_H

// A rank's times in one repetition, by now_ns(), whose clock all ranks of a machine share.
// loops.F90 declares the same three doubles.
struct stamps {
  double start;
  double loop_end;
  double end;  // end of the barrier after the loop
};

// Prints a line at rank 0, with a value of each time for each of `count` repetitions. `mean_ns`
// lasts from the first rank's start to the last rank's end. `ideal_ns` is the mean of the ranks'
// times in the loop, and `rank_ns` has these times by rank. Collective over MPI_COMM_WORLD.
void print_loop(const char* name, const struct stamps* mine, int count);

#endif
