// SPDX-License-Identifier: BSD-3-Clause
// Runs of a program with several imbalances in turn: their times, their results, and the JSON.
//
// Words: a *trial* is a run with one imbalance. The *loops* time of a rank is its time in loops
// that can be shared. The *ideal* of a trial is its wall time less the excess of the longest
// *loops* time over the mean of the ranks. The ideal is valid only if no rank runs iterations of
// another rank (a plain run, or a build with -DWORKSHARE=plain), because such help changes *loops*
// times. Limit: all ranks run on one node, since times of different ranks are compared.
#ifndef WORKSHARE_TRIALS_H
#define WORKSHARE_TRIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "mesh.h"
#include "options.h"

struct trial {
  int imbalance;      // requested by --imbalance, percent
  double work;        // work of this rank; the unit is the program's
  double start, end;  // times of now_s() at the start and end of the work of this rank
  double loops_s;     // seconds of this rank in loops that can be shared
  int steps;          // steps done; this and all later members are equal on all ranks
  double error;       // error of the result, against its known properties
  double bound;       // the largest `error` of a right result
  uint64_t hash;      // hash of the bits of the result
};

// The plan of trials_run(), from the command line: the imbalances (a trial each), the mesh, how
// often to run all trials, and the output file.
struct trials {
  struct wholes imbalances;
  int elements[AXES], repeat;
  const char* json_file;
};

// Collective. Runs a trial of one program: reads its `imbalance` and fills all other members.
// Returns false on all ranks if a rank is short of memory.
typedef bool (*trial_function)(struct trial* trial);

// The body of a program: runs a trial with each imbalance in turn, and all of them `repeat` times,
// so that a change of the machine's speed affects all imbalances. Returns the exit status: 0, 1 for
// a wrong result or incomplete output, 2 if a trial cannot run or the output file cannot be opened.
int trials_run(const char* program, const struct trials* trials, trial_function run);

// Divides the elements of the mesh over the ranks (mesh.h) for one imbalance. Returns false if no
// division exists; rank 0 then prints an error.
bool trials_mesh(const char* program, const struct trials* trials, int imbalance,
                 struct mesh* mesh);

// Collective. Returns whether `ok` is true on all ranks.
bool all_agree(bool ok);

// Returns the contribution to a hash of one value of the result, at a place in the whole mesh. The
// hash of a result is the sum of these over all places.
uint64_t hash_of(double value, uint64_t place);

#endif
