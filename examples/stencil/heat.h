// SPDX-License-Identifier: BSD-3-Clause
// Heat sources, heat that leaves the grid, and the check of their balance.
//
// The stencil moves a seventh of every cell to each neighbour and keeps a seventh. Therefore the
// sum of a variable changes only by the sources, and by heat that flows out over the border, which
// is held at zero. The check sum + outflow = sources finds halo planes that came late, twice or
// wrong.
#ifndef STENCIL_HEAT_H
#define STENCIL_HEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "grid.h"

struct heat {
  uint64_t seed;
  double* sources;     // by variable: put in so far, over all ranks (the same on every rank)
  double* outflow;     // by variable: left over this rank's part of the border so far
  double* balance;     // by variable: scratch of the check
  double worst_error;  // largest relative error seen by any check
  double mpi_seconds;  // inside MPI, since heat_clear_times()
};

// False: memory is short; `heat` is then empty.
bool heat_create(int vars, uint64_t seed, struct heat* heat);
void heat_free(struct heat* heat);

// Collective. Every cell gets a value in [0, 1) that depends on seed, variable and place alone;
// their sum is the first source.
void heat_start(struct heat* heat, const struct box* box, struct grid* grid);

// Adds one hot cell to each variable; where and how hot depends on seed, variable and step alone.
void heat_add_sources(struct heat* heat, const struct box* box, struct grid* grid, int step);

// Adds up what the step about to be computed sends over the border. Nothing when periodic.
void heat_count_outflow(struct heat* heat, const struct box* box, const struct grid* grid);

// Collective, one MPI_Allreduce over all variables. Updates worst_error.
void heat_check(struct heat* heat, const struct box* box, const struct grid* grid);

void heat_clear_times(struct heat* heat);

// The hash behind it all (the finaliser of SplitMix64): inputs that are alike give unlike outputs.
uint64_t mix64(uint64_t value);

#endif
