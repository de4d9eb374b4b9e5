// SPDX-License-Identifier: BSD-3-Clause
// The cost of a loop that no helper joins: measured on rank 0, while the other ranks lend no core.
#ifndef MH_BENCH_EMPTY_H
#define MH_BENCH_EMPTY_H

// Collective over MPI_COMM_WORLD. Prints `repeat` values of each time in nanoseconds: `start` and
// `chunk` of a loop that is too short to be shared; `exposed start` and `exposed chunk` of a loop
// of some 20 us, which is open to helpers and gets none.
void measure_empty(int repeat);

#endif
