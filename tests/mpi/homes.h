// SPDX-License-Identifier: BSD-3-Clause
// Pins ranks to cores. With a synthetic topology of hwloc, the core of a rank determines its NUMA
// node.
//
// A list of homes such as 0,0,1 pins ranks 0 and 1 to the first core of the process, and rank 2 to
// its last core.
#ifndef MH_TESTS_MPI_HOMES_H
#define MH_TESTS_MPI_HOMES_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>

// Returns the rank that the launcher's environment states, also before MPI_Init; -1 if it states
// none.
static inline int launched_rank(void) {
  static const char* const names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK"};
  for (int i = 0; i < 2; ++i) {
    const char* text = getenv(names[i]);
    if (text != NULL) return atoi(text);
  }
  return -1;
}

// The cores of this process before it is pinned.
static inline const cpu_set_t* all_cores(void) {
  static cpu_set_t cores;
  if (CPU_COUNT(&cores) == 0) sched_getaffinity(0, sizeof cores, &cores);
  return &cores;
}

// Pins this process to its entry of the list in the environment variable `name`, if the variable is
// set.
static inline void pin_to_home(const char* name, int rank) {
  const char* homes = getenv(name);
  if (homes == NULL || rank < 0 || strlen(homes) < 2 * (size_t)rank + 1) return;
  const int home = homes[2 * rank] - '0';
  cpu_set_t one;
  CPU_ZERO(&one);
  int core = home == 0 ? 0 : CPU_SETSIZE - 1;
  while (!CPU_ISSET(core, all_cores())) core += home == 0 ? 1 : -1;
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

#endif
