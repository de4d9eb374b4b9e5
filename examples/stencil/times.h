// SPDX-License-Identifier: BSD-3-Clause
// Where the time of a rank goes, step by step.
//
// Words: *mpi* is time inside MPI calls, *pack* is copying planes into and out of messages by the
// program, *compute* is all the rest. *wait* is an estimate from below: in every step, the time a
// rank spent inside MPI beyond the rank that spent least there. (Whatever that one did, copying
// included, the others could have done in the same time; what they spent on top is waiting for
// someone.)
#ifndef STENCIL_TIMES_H
#define STENCIL_TIMES_H

#include <mpi.h>
#include <stdbool.h>

struct times {
  int steps;                               // measured so far
  double total, compute, pack, mpi, wait;  // seconds over all measured steps
  double* step_total;                      // by measured step
  double* step_mpi;
};

// Room for `steps`. False: memory is short; `times` is then empty.
bool times_create(int steps, struct times* times);
void times_free(struct times* times);

// One more step: its seconds in all, in packing and inside MPI.
void times_add(struct times* times, double total, double pack, double mpi);

// Collective: fills `wait`.
void times_estimate_wait(struct times* times, MPI_Comm comm);

#endif
