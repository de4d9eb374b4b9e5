// SPDX-License-Identifier: BSD-3-Clause
// Measures loops that no helper joins. See empty.h. The time of a chunk is the slope between few
// and many chunks of the same loop. The time of a start is the time of the loop less the time of
// its chunks, and less the time of its iterations without OpenMP.
#include "empty.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "measure.h"

enum {
  kStarts = 20000,  // runs of a short loop, timed together
  kShort = 8,       // chunks of a short loop
  kMore = 100,      // additional chunks of the longer of two short loops
  kRounds = 200,    // runs of each of the three long loops in turn, each timed by itself
  kLong = 2000,     // iterations of a long loop, of about 10 ns each
  kSteps = 8,       // multiplications in an iteration
  kFewChunks = 2,   // with one chunk, nothing would be left for helpers
  kManyChunks = 20,
};

// An iteration: a chain of dependent steps, so that iterations do not overlap. The chain is of
// integers, because integers stay in registers when the loop asks the OpenMP run time for its next
// chunk. Therefore an iteration takes the same time with and without OpenMP.
static inline unsigned long iterate(unsigned long x) {
  for (int i = 0; i < kSteps; i++) {
    x = x * 6364136223846793005UL + 1;
    __asm__ volatile("" : "+r"(x));  // forces the compiler to compute x in each step
  }
  return x;
}

static __attribute__((noinline)) void long_without(int count) {
  unsigned long x = 0;
  for (int i = 0; i < count; i++) x = iterate(x);
}

// The loop that is long enough for helpers. It has no reduction, since merging the partial results
// would add to the time of a start.
static __attribute__((noinline)) void long_loop(int count, int chunk) {
  unsigned long x = 0;
#ifdef MARKED
#pragma ws for schedule(dynamic, chunk) firstprivate(x)
#else
#pragma omp parallel for schedule(dynamic, chunk) firstprivate(x)
#endif
  for (int i = 0; i < count; i++) x = iterate(x);
}

static __attribute__((noinline)) void short_loop(int count) {
#ifdef MARKED
#pragma ws for schedule(dynamic, 1)
#else
#pragma omp parallel for schedule(dynamic)
#endif
  for (int i = 0; i < count; i++) __asm__ volatile("");
}

static double starts_ns(int count) {
  const double begin = now_ns();
  for (int k = 0; k < kStarts; k++) short_loop(count);
  return (now_ns() - begin) / kStarts;
}

static void measure_short(double* start, double* chunk) {
  const double few = starts_ns(kShort), many = starts_ns(kShort + kMore);
  *chunk = (many - few) / kMore;
  *start = few - kShort * *chunk;
}

// Returns the time in ns of one run of the loop that is long enough for helpers. If `chunk` is 0,
// the loop runs without OpenMP.
static double once_ns(int chunk) {
  const double begin = now_ns();
  if (chunk == 0) {
    long_without(kLong);
  } else {
    long_loop(kLong, chunk);
  }
  return now_ns() - begin;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Returns the mean of the middle half of the measured times. Times that an interrupt lengthened do
// not count, and the steps of the clock, which may be 10 ns, average out.
static double middle_of(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  double sum = 0;
  for (int i = count / 4; i < count - count / 4; i++) sum += values[i];
  return sum / (count - count / 4 * 2);
}

// Measures the long loop in three ways (without OpenMP, with few chunks, with many) in turn, so
// that all run at the same clock speed.
static void measure_long(double* start, double* chunk) {
  double none[kRounds], few[kRounds], many[kRounds];
  for (int i = 0; i < kRounds; i++) {
    none[i] = once_ns(0);
    few[i] = once_ns(kLong / kFewChunks);
    many[i] = once_ns(kLong / kManyChunks);
  }
  const double plain = middle_of(none, kRounds), base = middle_of(few, kRounds);
  *chunk = (middle_of(many, kRounds) - base) / (kManyChunks - kFewChunks);
  *start = base - plain - kFewChunks * *chunk;
}

static void print_each(const char* name, const double* each, int count, int ranks) {
  printf("{\"kind\": \"loop\", \"name\": \"%s\", \"ranks\": %d, ", name, ranks);
  print_values("mean_ns", each, count);
  printf("}\n");
  fflush(stdout);
}

static void measure_on_first(int repeat, int ranks) {
  static const char* const kNames[] = {"start", "chunk", "exposed start", "exposed chunk"};
  double* found[4];
  for (int i = 0; i < 4; i++) {
    found[i] = malloc((size_t)repeat * sizeof(double));
    if (found[i] == NULL) fail("out of memory");
  }
  for (int b = 0; b < repeat; b++) {
    measure_short(&found[0][b], &found[1][b]);
    measure_long(&found[2][b], &found[3][b]);
  }
  for (int i = 0; i < 4; i++) {
    print_each(kNames[i], found[i], repeat, ranks);
    free(found[i]);
  }
}

// The body of all ranks but rank 0. Each sleeps, and calls MPI_Test every millisecond, until rank 0
// has measured. If it waited in MPI, it would lend its core and thus disturb the measurement.
static void stay_away(void) {
  enum { kNapUs = 1000 };
  MPI_Request over;
  int done = 0;
  MPI_Irecv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &over);
  for (;;) {
    MPI_Test(&over, &done, MPI_STATUS_IGNORE);
    if (done) return;
    usleep(kNapUs);
  }
}

void measure_empty(int repeat) {
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank != 0) {
    stay_away();
    return;
  }
  measure_on_first(repeat, ranks);
  for (int to = 1; to < ranks; to++) MPI_Send(NULL, 0, MPI_BYTE, to, 0, MPI_COMM_WORLD);
}
