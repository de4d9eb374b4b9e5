// SPDX-License-Identifier: BSD-3-Clause
// Measures repetitions of a loop that every rank runs, with a barrier after the loop.
//
// Words: a *series* is a number of repetitions of a loop. The *loop* time of a rank is the time of
// the loop alone. The *wall* time of a repetition lasts from the first rank's start to the moment
// when the last rank leaves the barrier. The *reference* is a series of the same loop without a
// directive. The *ideal* is the mean over ranks of the loop times: the time with evenly shared
// work. Limit: all ranks must run on one node, since times of different ranks are compared.
#ifndef WORKSHARE_SERIES_H
#define WORKSHARE_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "json.h"

// The loop of one rank, which is measured; `work` describes the rank's part. The result must be the
// same in every repetition.
typedef uint64_t (*loop_function)(const void* work);

struct stamp {
  double start, loop_end, end;  // seconds; the barrier lies between loop_end and end
};

struct series {
  int count, ranks;
  struct stamp* mine;
  struct stamp* all;  // on rank 0: repetition i of rank r is at [r * count + i]
};

struct timing_options {
  int repeat, warmup, reference;  // repetitions: measured, before these, without a directive
};

struct timing {
  struct series reference;  // count is 0 if not requested
  struct series measured;
  uint64_t result;  // the result of this rank's loop
  bool steady;      // all repetitions of both series gave `result` on this rank
};

double now_s(void);
double median(double* values, int count);  // sorts `values`; count > 0

// Collective over MPI_COMM_WORLD. Runs `plain` for the reference series and `loop` for the measured
// series. Returns false when memory is short.
bool timing_run(const struct timing_options* options, loop_function plain, loop_function loop,
                const void* work, struct timing* timing);
void timing_free(struct timing* timing);

// Rank 0 prints the loop time of each rank beside its amount of work, and then the wall times.
// `amounts`, read on rank 0 only: the amount of work of each rank, in the unit `unit`.
void timing_print(const struct timing* timing, const char* unit, const double* amounts);
// Writes the times of the measured series and of the reference series.
void timing_json(const struct timing* timing, struct json* json);

#endif
