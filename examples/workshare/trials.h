// SPDX-License-Identifier: BSD-3-Clause
// Runs of a program with several imbalances in turn: their times, their results, and the JSON.
//
// Words: a *trial* is a run with one imbalance. The *loops* time of a rank is its time in loops
// that can be shared. The *ideal* of a trial is its wall time without the time for which the
// longest rank is in loops beyond the mean of the ranks. It holds in builds and runs without help
// alone, because helped ranks run iterations of other ranks. Limit: all ranks run on one node,
// since times of different ranks are compared.
#ifndef WORKSHARE_TRIALS_H
#define WORKSHARE_TRIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "mesh.h"
#include "options.h"

struct trial {
  int imbalance;      // as requested, percent
  double work;        // of this rank; the unit is the program's
  double start, end;  // of this rank, by now_s()
  double loops_s;     // of this rank
  int steps;          // done; from here on equal on all ranks
  double error;       // of the result, against what is known of it
  double bound;       // the largest `error` of a right result
  uint64_t hash;      // of the result, bit for bit
};

// The options that say which trials to run.
struct trials {
  struct wholes imbalances;
  int elements[AXES], repeat;
  const char* json_file;
};

// Collective. Returns false on all ranks if memory is short on any.
typedef bool (*trial_function)(struct trial* trial);

// The body of a program: all imbalances in turn, `repeat` times, so that all meet the same state of
// the machine. Returns the exit status: 0, 1 for a wrong result, 2 for what cannot be run.
int trials_run(const char* program, const struct trials* trials, trial_function run);

// The division of the elements over ranks (mesh.h); with an error message, false where there is
// none.
bool trials_mesh(const char* program, const struct trials* trials, int imbalance,
                 struct mesh* mesh);

// Collective: true if all ranks say so.
bool all_agree(bool ok);

// The part of a hash for a value at a place; the hash of a result is the sum of its parts.
uint64_t hash_of(double value, uint64_t place);

#endif
