// SPDX-License-Identifier: BSD-3-Clause
// The machine's limit for copying: memcpy by one rank alone, then by all ranks together.
#ifndef STENCIL_MEMBENCH_H
#define STENCIL_MEMBENCH_H

#include <mpi.h>
#include <stdbool.h>

struct membench {
  int mib;                   // size of a buffer; 0: not measured
  double one_gb_per_s;       // 10^9 bytes copied a second by rank 0 while the others wait
  double together_gb_per_s;  // sum over all ranks, which copy at the same time
};

// Collective. Copies `mib` MiB by memcpy, alone and together. Returns false on every rank if any
// rank is short of memory. Rank 0 gets the results.
bool membench_run(MPI_Comm comm, int mib, struct membench* result);

#endif
