// SPDX-License-Identifier: BSD-3-Clause
// Pins ranks to cores. With a synthetic topology of hwloc, the core of a rank says on which NUMA
// node the rank is at home.
//
// HOMES=0,0,1 pins ranks 0 and 1 to the first core of the process, and rank 2 to its last core.
#ifndef MH_TESTS_MPI_HOMES_H
#define MH_TESTS_MPI_HOMES_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>

// The rank as the launcher says it, before MPI_Init; -1 if the launcher does not.
static inline int launched_rank(void) {
  static const char* const names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK"};
  for (int i = 0; i < 2; ++i) {
    const char* text = getenv(names[i]);
    if (text != NULL) return atoi(text);
  }
  return -1;
}

// The digit of this rank in $HOMES; -1 if there is none.
static inline int home_of(int rank) {
  const char* homes = getenv("HOMES");
  if (homes == NULL || rank < 0 || strlen(homes) < 2 * (size_t)rank + 1) return -1;
  return homes[2 * rank] - '0';
}

// Runs this process on its first core for home 0, on its last core for home 1.
static inline void run_at_home(int home, const cpu_set_t* cores) {
  cpu_set_t one;
  CPU_ZERO(&one);
  int core = home == 0 ? 0 : CPU_SETSIZE - 1;
  while (!CPU_ISSET(core, cores)) core += home == 0 ? 1 : -1;
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

static inline void pin_to_home(int rank) {
  cpu_set_t cores;
  const int home = home_of(rank);
  if (home >= 0 && sched_getaffinity(0, sizeof cores, &cores) == 0) run_at_home(home, &cores);
}

// Starts this process at the other home, and leaves it free to move.
static inline void begin_away_from_home(int rank) {
  cpu_set_t cores;
  const int home = home_of(rank);
  if (home < 0 || sched_getaffinity(0, sizeof cores, &cores) != 0) return;
  run_at_home(1 - home, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

#endif
