// SPDX-License-Identifier: BSD-3-Clause
// The time of a rank, step by step.
//
// *mpi* is time inside MPI calls. *pack* is the program's copying of planes into and out of
// messages. *compute* is the rest. *wait* is a lower bound: in every step, the time that a rank
// spent inside MPI beyond the rank with the least time there. All ranks have the same
// communication, so the surplus is waiting.
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

// Adds a step: its seconds in total, in packing and inside MPI.
void times_add(struct times* times, double total, double pack, double mpi);

// Collective: fills `wait`.
void times_estimate_wait(struct times* times, MPI_Comm comm);

#endif
