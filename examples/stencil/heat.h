// SPDX-License-Identifier: BSD-3-Clause
// Heat sources, heat that leaves the grid, and the check of their balance.
//
// The stencil moves a seventh of every cell's value to each neighbour and keeps a seventh.
// Therefore the sum of a variable changes only by the sources and by the outflow over the border,
// where values are zero. The check sum + outflow = sources finds halo planes that arrived late,
// twice or wrong.
#ifndef STENCIL_HEAT_H
#define STENCIL_HEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "grid.h"

struct heat {
  uint64_t seed;
  double* sources;     // by variable: heat of all sources up to this step, over all ranks
  double* outflow;     // by variable: heat that has left over this rank's part of the border
  double* balance;     // by variable: scratch of the check
  double worst_error;  // largest relative error seen by any check
  double mpi_seconds;  // seconds inside MPI since heat_clear_times()
};

// Allocates the balance of each variable. Returns false when memory is short; `heat` is then empty.
bool heat_create(int vars, uint64_t seed, struct heat* heat);
void heat_free(struct heat* heat);

// Collective. Gives every cell a start value in [0, 1) that depends on seed, variable and place
// alone. In the balance, the sum of these values counts as the first source.
void heat_start(struct heat* heat, const struct box* box, struct grid* grid);

// Adds heat to one cell of each variable; only the rank that has the cell does so. The place of the
// cell and the heat depend on seed, variable and step alone.
void heat_add_sources(struct heat* heat, const struct box* box, struct grid* grid, int step);

// Adds the heat that will leave the whole grid in the next step to `outflow`. A periodic grid has
// no border, so nothing leaves it.
void heat_count_outflow(struct heat* heat, const struct box* box, const struct grid* grid);

// Collective. Checks sum + outflow = sources for each variable, and updates worst_error. Makes one
// MPI_Allreduce over all variables.
void heat_check(struct heat* heat, const struct box* box, const struct grid* grid);

void heat_clear_times(struct heat* heat);

// Returns the hash of a value, a step of SplitMix64. Similar values have unlike hashes.
uint64_t mix64(uint64_t value);

#endif
