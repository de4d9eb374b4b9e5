/* SPDX-License-Identifier: BSD-3-Clause */
/* A library with a parallel region, whose function begins at the same place for every KERNEL. 1: a
 * loop that can be shared. 2: a region that needs a team of its own. SCHEDULE: the schedule of the
 * loop. replaced.c loads one library after the other. */
#include <omp.h>
#include <string.h>
#include <sys/prctl.h>

enum { N = 400 };
static int seen[N];
static int by_helpers;

static void work(int i) {
  char name[16] = "";
  for (volatile int k = 0; k < 10000; ++k) continue;
  prctl(PR_GET_NAME, name);
  if (strcmp(name, "mh-helper") == 0) __atomic_store_n(&by_helpers, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&seen[i], 1, __ATOMIC_RELAXED);
}

/* Executes the region. Returns whether the result is right; *joined: a helper has come. */
int kernel(int* joined) {
  int bad = 0, n = N, team = omp_get_max_threads(), singles = 0;
  memset(seen, 0, sizeof seen);
#pragma omp parallel shared(bad, n, team, singles)
  {
#pragma omp for schedule(SCHEDULE) nowait
    for (int i = 0; i < n; ++i) work(i);
#if KERNEL == 2
    if (omp_get_thread_num() >= team || omp_get_num_threads() != team) bad = 1;
#pragma omp single nowait
    singles += 1;
#endif
  }
  for (int i = 0; i < n; ++i) bad |= seen[i] != 1;
  *joined = by_helpers;
  return !bad && singles == KERNEL - 1;
}
