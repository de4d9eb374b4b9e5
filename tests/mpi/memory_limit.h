// SPDX-License-Identifier: BSD-3-Clause
// Limits the address space of this process to its present size and some bytes more, for tests in
// which allocations must fail.
#ifndef MH_TESTS_MPI_MEMORY_LIMIT_H
#define MH_TESTS_MPI_MEMORY_LIMIT_H

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

static inline void limit_memory(size_t bytes_left) {
  FILE* file = fopen("/proc/self/statm", "r");
  size_t pages = 0;
  CHECK(file != NULL && fscanf(file, "%zu", &pages) == 1, "no statm");
  fclose(file);
  size_t used = pages * (size_t)sysconf(_SC_PAGESIZE);
  struct rlimit limit = {.rlim_cur = used + bytes_left, .rlim_max = RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
}

#endif
