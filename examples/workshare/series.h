// SPDX-License-Identifier: BSD-3-Clause
// Timing a loop that every rank runs and that ends with a barrier, over and over.
//
// Words: a *series* is a number of repetitions of one loop. The *loop* time of a rank is that of
// the loop alone; the *wall* time of a repetition lasts from the first rank's start to the moment
// the last rank leaves the barrier. The *reference* is a series of the same loop without a
// directive; the mean over ranks of its loop times is the *ideal*: nobody can do better than share
// the work evenly. Limit: times of different ranks are compared, so all ranks have to run on one
// node.
#ifndef WORKSHARE_SERIES_H
#define WORKSHARE_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "json.h"

// One run of a rank's loop over `work`. The result must be the same in every repetition.
typedef uint64_t (*loop_function)(const void* work);

struct stamp {
  double start, loop_end, end;  // seconds; the barrier lies between loop_end and end
};

struct series {
  int count, ranks;
  struct stamp* mine;
  struct stamp* all;  // on rank 0: of repetition i of rank r at [r * count + i]
};

struct timing_options {
  int repeat, warmup, reference;
};

struct timing {
  struct series reference;  // count 0: not asked for
  struct series measured;
  uint64_t result;  // of this rank's loop
  bool steady;      // every repetition of both series gave this result on this rank
};

double now_s(void);
double median(double* values, int count);  // sorts them; count > 0

// Collective over MPI_COMM_WORLD. False when memory is short.
bool timing_run(const struct timing_options* options, loop_function plain, loop_function loop,
                const void* work, struct timing* timing);
void timing_free(struct timing* timing);

// Rank 0 prints a table; `unit` names what `amounts[rank]` counts.
void timing_print(const struct timing* timing, const char* unit, const double* amounts);
void timing_json(const struct timing* timing, struct json* json);

#endif
