// SPDX-License-Identifier: BSD-3-Clause
// Times loops of ranks with unequal work, from the start of the first rank to the end of the last.
//
// The triangular loop of MPI Workshare: row i costs i steps and all ranks have the same number of
// rows, so the last rank has the most work. `ideal_ns` in the output is the mean of the ranks' own
// times in the loop; it is valid only without Manyhands, since helpers change these times. With
// --balanced every rank has the same rows, and sharing cannot gain. The program checks the sums.
// --empty measures loops that no helper joins (empty.h). Compiled with -DMARKED the loops have
// `#pragma ws for` in place of OpenMP's directive. loops.F90 is the program in Fortran.
// Options, with their defaults in parentheses:
//   --micros LIST  time in us of the loop of the rank with the most work (500,2000,20000); with
//                  --total, of the loops of all ranks together
//   --chunks LIST  rows that a thread takes at a time (8)   --repeat N (40)
//   --steal N      rows that a helper takes at a time; marked loops only
//   --balanced     --empty     --total     --divided  a static schedule
//   --ramp PERCENT with --balanced: the ranks' work rises from PERCENT below the mean to PERCENT
//                  above it
//   --sleep NS     for emulated nodes: a row does not compute; it sleeps NS ns of real time for
//                  each ns of its modelled time, and so needs no core
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "empty.h"
#include "measure.h"
#include "stamps.h"

enum { kWarmUps = 3, kSteps = 200000 };

struct options {
  struct sizes micros;
  struct sizes chunks;
  int steal;  // 0: the library's default
  int repeat;
  int balanced;
  int total;
  int empty;
  int divided;
  int ramp;
  int sleep;
};

struct rows {
  long first;
  long end;
};

static int g_rank, g_ranks;
static int g_sleep;  // with --sleep, the time in ns that a step sleeps

static void sleep_until(double ns) {
  const struct timespec at = {.tv_sec = (time_t)(ns / 1e9), .tv_nsec = (long)fmod(ns, 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
  }
}

// Sleeps for the time of a row. A thread that wakes late begins its next row at the time at which
// the last one should have ended, so the delays of the system do not add up.
static double sleep_through(long steps) {
  static _Thread_local double due;
  const double kLateness = 1.5e6, kShortest = 150e3, now = now_ns();
  due = (now - due < kLateness ? due : now) + (double)steps * g_sleep;
  if (due - now > kShortest) sleep_until(due);
  return (double)steps;
}

// Computes a row: a chain of dependent steps that compilers cannot shorten. Returns a value that
// depends on every step.
static double row(long steps) {
  if (g_sleep > 0) return sleep_through(steps);
  double x = 1;
  for (long i = 0; i < steps; i++) x = x * 0.999999 + 1e-3;
  return x;
}

static double run_rows(struct rows mine, int chunk) {
  double sum = 0;
#ifdef MARKED
#pragma ws for schedule(dynamic, chunk) reduction(+ : sum)
#else
#pragma omp parallel for schedule(dynamic, chunk) reduction(+ : sum)
#endif
  for (long i = mine.first; i < mine.end; i++) sum += row(i);
  return sum;
}

#ifdef MARKED
static double run_rows_cut(struct rows mine, int chunk, int steal) {
  double sum = 0;
#pragma ws for schedule(dynamic, chunk) steal_schedule(dynamic, steal) reduction(+ : sum)
  for (long i = mine.first; i < mine.end; i++) sum += row(i);
  return sum;
}
#else
static double run_rows_cut(struct rows mine, int chunk, int steal) {
  (void)steal;
  return run_rows(mine, chunk);
}
#endif

static double run_rows_divided(struct rows mine) {
  double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (long i = mine.first; i < mine.end; i++) sum += row(i);
  return sum;
}

static double ns_per_step(void) {
  double best = 1e30;
  for (int i = 0; i < 5; i++) {
    const double start = now_ns();
    const double value = row(kSteps);
    const double spent = now_ns() - start;
    if (value > 0 && spent < best) best = spent;
  }
  MPI_Bcast(&best, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return best / kSteps;
}

// Returns the rows of this rank's loop. Their number is such that the loop of the rank with the
// most work (with --total, the loops of all ranks together) takes `ns`, if a step takes `step` ns.
static struct rows rows_for(double ns, double step, const struct options* o) {
  const double p = g_ranks;
  const double above = p > 1 ? o->ramp / 100.0 * (2 * g_rank / (p - 1) - 1) : 0;
  const double part = (1 + above) / (1 + o->ramp / 100.0);  // of the longest rank's work
  const double share = o->total || o->balanced ? 2 * part : 2 * p * p / (2 * p - 1);
  const long all = (long)sqrt(ns / step * share);
  if (o->balanced) return (struct rows){0, all};
  return (struct rows){all * g_rank / g_ranks, all * (g_rank + 1) / g_ranks};
}

static double run_loop(struct rows mine, int chunk, const struct options* o) {
  if (o->divided) return run_rows_divided(mine);
  return o->steal > 0 ? run_rows_cut(mine, chunk, o->steal) : run_rows(mine, chunk);
}

static double repeat_once(struct rows mine, int chunk, const struct options* o,
                          struct stamps* stamps) {
  MPI_Barrier(MPI_COMM_WORLD);
  stamps->start = now_ns();
  const double sum = run_loop(mine, chunk, o);
  stamps->loop_end = now_ns();
  MPI_Barrier(MPI_COMM_WORLD);
  stamps->end = now_ns();
  return sum;
}

static void measure(const char* name, struct rows mine, int chunk, const struct options* o) {
  struct stamps* stamps = malloc((size_t)o->repeat * sizeof *stamps);
  struct stamps unused;
  if (stamps == NULL) fail("out of memory");
  double expected = 0;
  for (long i = mine.first; i < mine.end; i++) expected += g_sleep > 0 ? (double)i : row(i);
  for (int i = 0; i < kWarmUps; i++) repeat_once(mine, chunk, o, &unused);
  for (int i = 0; i < o->repeat; i++) {
    const double sum = repeat_once(mine, chunk, o, &stamps[i]);
    if (fabs(sum - expected) > 1e-9 * expected) fail("a loop gave a wrong sum");
  }
  print_loop(name, stamps, o->repeat);
  free(stamps);
}

static void measure_all(const struct options* o) {
  g_sleep = o->sleep;
  const double step = g_sleep > 0 ? 1 : ns_per_step();  // a step that sleeps stands for 1 ns
  const char* kind = o->balanced ? "balanced" : "triangle";
  for (int i = 0; i < o->micros.count; i++) {
    const size_t micros = o->micros.bytes[i];
    const struct rows mine = rows_for((double)micros * 1e3, step, o);
    for (int k = 0; k < o->chunks.count; k++) {
      char name[64], of_chunk[32] = "";
      const int chunk = (int)o->chunks.bytes[k];
      if (o->chunks.count > 1) snprintf(of_chunk, sizeof of_chunk, ", chunk %d", chunk);
      snprintf(name, sizeof name, "%s %zu us%s", kind, micros, of_chunk);
      measure(name, mine, chunk, o);
    }
  }
}

static struct options parse(int argc, char** argv) {
  struct options o = {.repeat = 40};
  o.micros = parse_sizes("500,2000,20000");
  o.chunks = parse_sizes("8");
  const struct option_to options[] = {{"micros", kSizes, &o.micros},
                                      {"chunks", kSizes, &o.chunks},
                                      {"steal", kNumber, &o.steal},
                                      {"repeat", kNumber, &o.repeat},
                                      {"balanced", kFlag, &o.balanced},
                                      {"empty", kFlag, &o.empty},
                                      {"total", kFlag, &o.total},
                                      {"divided", kFlag, &o.divided},
                                      {"ramp", kNumber, &o.ramp},
                                      {"sleep", kNumber, &o.sleep},
                                      {0}};
  parse_options("loops", argc, argv, options);
  for (int i = 0; i < o.chunks.count; i++) {
    if (o.chunks.bytes[i] < 1) fail("a chunk has at least 1 row");
  }
  if (o.repeat < 1 || o.steal < 0) fail("--repeat is at least 1, --steal not negative");
  if (o.ramp < 0 || o.ramp > 100 || o.sleep < 0) fail("--ramp is 0 to 100, --sleep not negative");
  return o;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_ranks);
  const struct options o = parse(argc, argv);
  print_config("loops", argc, argv);
  if (o.empty) {
    measure_empty(o.repeat);
  } else {
    measure_all(&o);
  }
  MPI_Finalize();
  return 0;
}
