// SPDX-License-Identifier: BSD-3-Clause
// Initial values, sources, outflow and the balance of heat. See heat.h for the physics.
//
// Random values are hashes of (seed, variable, place), never a sequence. Therefore a cell starts
// with the same value on any rank.
#include "heat.h"

#include <math.h>
#include <stdlib.h>

uint64_t mix64(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

// Returns a number in [0, 1) from the upper 53 bits of a hash.
static double unit(uint64_t hash) { return (double)(hash >> 11) * 0x1p-53; }

static uint64_t key_of(uint64_t seed, int var) { return mix64(seed ^ mix64((uint64_t)var)); }

bool heat_create(int vars, uint64_t seed, struct heat* heat) {
  *heat = (struct heat){.seed = seed};
  heat->sources = calloc((size_t)vars, sizeof(double));
  heat->outflow = calloc((size_t)vars, sizeof(double));
  heat->balance = calloc((size_t)vars, sizeof(double));
  if (heat->sources != NULL && heat->outflow != NULL && heat->balance != NULL) return true;
  heat_free(heat);
  return false;
}

void heat_free(struct heat* heat) {
  free(heat->sources);
  free(heat->outflow);
  free(heat->balance);
  *heat = (struct heat){0};
}

static void fill_variable(const struct box* box, struct grid* grid, int var, uint64_t key) {
  for (int z = 0; z < grid->cells[AXIS_Z]; ++z) {
    for (int y = 0; y < grid->cells[AXIS_Y]; ++y) {
      const uint64_t row = (uint64_t)(box->first[AXIS_Z] + z) * (uint64_t)box->whole[AXIS_Y] +
                           (uint64_t)(box->first[AXIS_Y] + y);
      const uint64_t start = row * (uint64_t)box->whole[AXIS_X] + (uint64_t)box->first[AXIS_X];
      double* out = grid->now + grid_at(grid, var, 0, y, z);
      for (int x = 0; x < grid->cells[AXIS_X]; ++x) out[x] = unit(mix64(key + start + (uint64_t)x));
    }
  }
}

static double sum_of_variable(const struct grid* grid, int var) {
  double sum = 0.0;
  for (int z = 0; z < grid->cells[AXIS_Z]; ++z) {
    for (int y = 0; y < grid->cells[AXIS_Y]; ++y) {
      const double* row = grid->now + grid_at(grid, var, 0, y, z);
      for (int x = 0; x < grid->cells[AXIS_X]; ++x) sum += row[x];
    }
  }
  return sum;
}

void heat_start(struct heat* heat, const struct box* box, struct grid* grid) {
  for (int var = 0; var < grid->vars; ++var) {
    fill_variable(box, grid, var, key_of(heat->seed, var));
    heat->balance[var] = sum_of_variable(grid, var);
  }
  MPI_Allreduce(heat->balance, heat->sources, grid->vars, MPI_DOUBLE, MPI_SUM, box->comm);
}

void heat_add_sources(struct heat* heat, const struct box* box, struct grid* grid, int step) {
  for (int var = 0; var < grid->vars; ++var) {
    uint64_t hash = mix64(key_of(heat->seed, var) + (uint64_t)step);
    const double amount = 100.0 * unit(hash);
    int cell[AXES];
    bool mine = true;
    for (int axis = 0; axis < AXES; ++axis) {
      hash = mix64(hash);
      const long place = (long)(hash % (uint64_t)box->whole[axis]) - box->first[axis];
      mine = mine && place >= 0 && place < box->cells[axis];
      cell[axis] = mine ? (int)place : 0;
    }
    heat->sources[var] += amount;
    if (mine) grid->now[grid_at(grid, var, cell[AXIS_X], cell[AXIS_Y], cell[AXIS_Z])] += amount;
  }
}

// Returns the sum over the cells of one variable in the plane at `side` of axis `a`.
static double sum_of_plane(const struct grid* grid, int var, int a, int side) {
  const int inner = a == AXIS_X ? AXIS_Y : AXIS_X;
  const int outer = a == AXIS_Z ? AXIS_Y : AXIS_Z;
  const double* origin = grid->now + grid_at(grid, var, 0, 0, 0);
  if (side == SIDE_HIGH) origin += (size_t)(grid->cells[a] - 1) * grid->stride[a];
  double sum = 0.0;
  for (int j = 0; j < grid->cells[outer]; ++j) {
    const double* row = origin + (size_t)j * grid->stride[outer];
    for (int i = 0; i < grid->cells[inner]; ++i) sum += row[(size_t)i * grid->stride[inner]];
  }
  return sum;
}

void heat_count_outflow(struct heat* heat, const struct box* box, const struct grid* grid) {
  for (int axis = 0; axis < AXES; ++axis) {
    for (int side = 0; side < SIDES; ++side) {
      if (box->neighbour[axis][side] != MPI_PROC_NULL) continue;
      for (int var = 0; var < grid->vars; ++var) {
        heat->outflow[var] += sum_of_plane(grid, var, axis, side) / 7.0;
      }
    }
  }
}

void heat_check(struct heat* heat, const struct box* box, const struct grid* grid) {
  for (int var = 0; var < grid->vars; ++var) {
    heat->balance[var] = sum_of_variable(grid, var) + heat->outflow[var];
  }
  const double start = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, heat->balance, grid->vars, MPI_DOUBLE, MPI_SUM, box->comm);
  heat->mpi_seconds += MPI_Wtime() - start;
  for (int var = 0; var < grid->vars; ++var) {
    const double error = fabs(heat->balance[var] - heat->sources[var]) / heat->sources[var];
    if (!(error <= heat->worst_error)) heat->worst_error = error;  // a NaN counts as worst
  }
}

void heat_clear_times(struct heat* heat) { heat->mpi_seconds = 0.0; }
