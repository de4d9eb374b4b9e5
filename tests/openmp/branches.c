/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that begin, after a helper has joined them once, to make a call that keeps regions from
 * being shared. Each region runs until a helper has joined its loop, then a few times with the
 * branch that makes the call. A helper that took part in the call would change its outcome: a
 * barrier would hang, a single block would run twice. `hidden` calls are behind a pointer, so the
 * search of the code does not find the calls. The search finds all other calls: no helper joins
 * their regions, and a few executions are enough.
 *
 * Prints `case NAME ok|WRONG joined|alone`: whether all executions were right, and whether a
 * helper joined before the other branch was taken. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { N = 400, FEW = 40 };
static int most = 3000; /* executions in which a helper may join; the first argument */
static int seen[N], again[N], chain[N + 1];
static long others;
static int other_branch, right;
static int single_runs, sections_run, tasks_run, ordered_last, masters, came, missing;

static void visit(int i) {
  static __thread int is_helper = -1;
  if (is_helper < 0) {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    is_helper = strcmp(name, "mh-helper") == 0;
  }
  for (volatile int k = 0; k < 150 + i % 50; ++k) continue;
  __atomic_fetch_add(&seen[i], 1, __ATOMIC_RELAXED);
  if (is_helper) __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
}

static void expect(int holds) {
  if (!holds) __atomic_store_n(&right, 0, __ATOMIC_RELAXED);
}

/* ---- The branches inside a region, and the checks after it */

static void do_barrier(void) {
#pragma omp atomic
  came += 1;
#pragma omp barrier
  for (int i = 0; i < N; ++i) {
    if (__atomic_load_n(&seen[i], __ATOMIC_RELAXED) != 1)
      __atomic_store_n(&missing, 1, __ATOMIC_RELAXED);
  }
}
static void after_barrier(void) { expect(came > 0 && !missing); }

static void do_single(void) {
#pragma omp single
  ++single_runs;
  expect(single_runs == 1);
}
static void after_single(void) { expect(single_runs == 1); }

static void do_copied(void) {
  int value = 0;
#pragma omp single copyprivate(value)
  value = ++single_runs;
  expect(value == 1);
}

static void do_sections(void) {
#pragma omp sections
  {
#pragma omp section
    __atomic_fetch_add(&sections_run, 1, __ATOMIC_RELAXED);
#pragma omp section
    __atomic_fetch_add(&sections_run, 1, __ATOMIC_RELAXED);
  }
  expect(sections_run == 2);
}
static void after_sections(void) { expect(sections_run == 2); }

static void do_loop(void) {
#pragma omp for schedule(dynamic)
  for (int i = 0; i < N; ++i) __atomic_fetch_add(&again[i], 1, __ATOMIC_RELAXED);
}
static void do_fixed(void) {
#pragma omp for schedule(static)
  for (int i = 0; i < N; ++i) __atomic_fetch_add(&again[i], 1, __ATOMIC_RELAXED);
}
static void do_ordered(void) {
#pragma omp for schedule(dynamic) ordered nowait
  for (int i = 0; i < N; ++i) {
    __atomic_fetch_add(&again[i], 1, __ATOMIC_RELAXED);
#pragma omp ordered
    {
      expect(ordered_last == i - 1);
      ordered_last = i;
    }
  }
}
static void after_loop(void) {
  for (int i = 0; i < N; ++i) expect(again[i] == 1);
}

static void do_doacross(void) {
#pragma omp for schedule(dynamic) ordered(1) nowait
  for (int i = 0; i < N; ++i) {
#pragma omp ordered depend(sink : i - 1)
    chain[i + 1] = chain[i] + 1;
#pragma omp ordered depend(source)
  }
}
static void after_doacross(void) { expect(chain[N] == N); }

static void do_tasks(void) {
#pragma omp task
  __atomic_fetch_add(&tasks_run, 1, __ATOMIC_RELAXED);
#pragma omp taskwait
#pragma omp atomic
  came += 1;
}
static void after_tasks(void) { expect(tasks_run == came && came > 0); }

static void do_master(void) {
#pragma omp master
  ++masters;
}
static void after_master(void) { expect(masters == 1); }

/* ---- The regions */

#define REGIONS(what)                                                                      \
  __attribute__((noinline)) static void region_with_##what(void) {                         \
    _Pragma("omp parallel") {                                                              \
      _Pragma("omp for schedule(dynamic, 2) nowait") for (int i = 0; i < N; ++i) visit(i); \
      if (other_branch) do_##what();                                                       \
    }                                                                                      \
  }                                                                                        \
  static void (*volatile hidden_##what)(void) = do_##what;                                 \
  __attribute__((noinline)) static void region_with_hidden_##what(void) {                  \
    _Pragma("omp parallel") {                                                              \
      _Pragma("omp for schedule(dynamic, 2) nowait") for (int i = 0; i < N; ++i) visit(i); \
      if (other_branch) hidden_##what();                                                   \
    }                                                                                      \
  }                                                                                        \
  __attribute__((noinline)) static void region_before_##what(void) {                       \
    _Pragma("omp parallel") {                                                              \
      if (other_branch) hidden_##what();                                                   \
      _Pragma("omp for schedule(dynamic, 2) nowait") for (int i = 0; i < N; ++i) visit(i); \
    }                                                                                      \
  }

REGIONS(barrier)
REGIONS(single)
REGIONS(copied)
REGIONS(sections)
REGIONS(loop)
REGIONS(fixed)
REGIONS(ordered)
REGIONS(doacross)
REGIONS(tasks)
REGIONS(master)

static void nothing(void) {}

#define ROWS(what, after)                                                                    \
  {#what, region_with_##what, after}, {"hidden_" #what, region_with_hidden_##what, after}, { \
    "before_" #what, region_before_##what, after                                             \
  }
static const struct {
  const char* name;
  void (*run)(void);
  void (*after)(void);
} cases[] = {
    {"hidden_barrier", region_with_hidden_barrier, after_barrier},
    {"barrier", region_with_barrier, after_barrier},
    {"before_barrier", region_before_barrier, nothing},
    ROWS(single, after_single),
    ROWS(copied, after_single),
    ROWS(sections, after_sections),
    ROWS(loop, after_loop),
    ROWS(fixed, after_loop),
    ROWS(ordered, after_loop),
    ROWS(doacross, after_doacross),
    ROWS(tasks, after_tasks),
    ROWS(master, after_master),
};

static void run_once(int which) {
  memset(seen, 0, sizeof seen);
  memset(again, 0, sizeof again);
  memset(chain, 0, sizeof chain);
  single_runs = sections_run = tasks_run = masters = came = missing = 0;
  ordered_last = -1;
  cases[which].run();
  for (int i = 0; i < N; ++i) expect(seen[i] == 1);
  if (other_branch) cases[which].after();
}

static void play(int which) {
  others = other_branch = 0;
  right = 1;
  const char* name = cases[which].name;
  const int is_shared = strncmp(name, "hidden_", 7) == 0 || strncmp(name, "before_", 7) == 0;
  const int limit = is_shared ? most : FEW;
  for (int times = 0; right && times < limit && (others == 0 || times < 5); ++times)
    run_once(which);
  const int joined = others != 0;
  other_branch = 1;
  for (int times = 0; right && times < FEW; ++times) run_once(which);
  printf("case %s %s %s\n", name, right ? "ok" : "WRONG", joined ? "joined" : "alone");
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 1) most = atoi(argv[1]);
  for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); ++i) {
    if (rank == 0) play(i);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
