// SPDX-License-Identifier: BSD-3-Clause
// Heat sources, heat that leaves the grid, and the check of their balance.
//
// The stencil moves a seventh of every cell to each neighbour and keeps a seventh. Therefore the
// sum of a variable changes only by the sources and by the outflow over the border, which is held
// at zero. The check sum + outflow = sources finds halo planes that arrived late, twice or wrong.
#ifndef STENCIL_HEAT_H
#define STENCIL_HEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "grid.h"

struct heat {
  uint64_t seed;
  double* sources;     // by variable: heat of the sources so far, over all ranks
  double* outflow;     // by variable: heat that left over this rank's part of the border so far
  double* balance;     // by variable: scratch of the check
  double worst_error;  // largest relative error seen by any check
  double mpi_seconds;  // inside MPI, since heat_clear_times()
};

// Returns false when memory is short; `heat` is then empty.
bool heat_create(int vars, uint64_t seed, struct heat* heat);
void heat_free(struct heat* heat);

// Collective. Gives every cell a value in [0, 1) that depends on seed, variable and place alone.
// The sum of these values is the first source.
void heat_start(struct heat* heat, const struct box* box, struct grid* grid);

// Adds a hot cell to each variable. Its place and heat depend on seed, variable and step alone.
void heat_add_sources(struct heat* heat, const struct box* box, struct grid* grid, int step);

// Adds the heat that the next step will send over the border; none if periodic.
void heat_count_outflow(struct heat* heat, const struct box* box, const struct grid* grid);

// Collective, one MPI_Allreduce over all variables. Updates worst_error.
void heat_check(struct heat* heat, const struct box* box, const struct grid* grid);

void heat_clear_times(struct heat* heat);

// Hashes a value (the finaliser of SplitMix64): similar inputs give unlike outputs.
uint64_t mix64(uint64_t value);

#endif
