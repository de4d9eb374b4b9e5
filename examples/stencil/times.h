// SPDX-License-Identifier: BSD-3-Clause
// The time of a rank, step by step.
//
// Words: *mpi* is the time inside MPI calls. The time *pack* is the program's copying of planes
// into and out of messages. The time *compute* is the rest of the step. The time *wait* is a lower
// bound of waiting: the excess of a rank's *mpi* over the least *mpi* of all ranks, step by step.
// All ranks have the same communication, so the excess is waiting.
#ifndef STENCIL_TIMES_H
#define STENCIL_TIMES_H

#include <mpi.h>
#include <stdbool.h>

struct times {
  int steps;                               // number of measured steps
  double total, compute, pack, mpi, wait;  // seconds over all measured steps
  double* step_total;                      // by measured step
  double* step_mpi;
};

// Allocates space for `steps` steps. Returns false when memory is short; `times` is then empty.
bool times_create(int steps, struct times* times);
void times_free(struct times* times);

// Adds the times of a step in seconds: in total, in packing, and inside MPI.
void times_add(struct times* times, double total, double pack, double mpi);

// Collective. Computes the time `wait` from the *mpi* times of all ranks; called after the last
// step.
void times_estimate_wait(struct times* times, MPI_Comm comm);

#endif
