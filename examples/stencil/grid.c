// SPDX-License-Identifier: BSD-3-Clause
// The division of the grid over ranks, the grid's memory, and the 7-point stencil.
//
// A cell is computed from the same seven values in the same order, whichever rank has the cell.
// Therefore the bits of the result do not depend on the number of ranks. The build needs
// -ffp-contract=off: a fused multiply-add in a vector loop but not in its remainder would change
// bits.
#include "grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Maps a dimension of the process grid to the axis that it divides, and an axis to its dimension.
// The first dimension, which MPI numbers slowest, divides z; the last divides x.
static int opposite(int dim) { return AXES - 1 - dim; }

static void divide(const struct options* options, struct box* box) {
  for (int axis = 0; axis < AXES; ++axis) {
    const long processes = box->processes[axis];
    const long place = box->place[axis];
    const long cells = options->cells[axis];
    if (!options->global) {
      box->whole[axis] = cells * processes;
      box->first[axis] = cells * place;
      box->cells[axis] = (int)cells;
      continue;
    }
    box->whole[axis] = cells;
    box->first[axis] = cells * place / processes;
    box->cells[axis] = (int)(cells * (place + 1) / processes - box->first[axis]);
  }
}

static bool every_rank_has_cells(const struct options* options, const struct box* box) {
  if (!options->global) return true;
  for (int axis = 0; axis < AXES; ++axis) {
    if (options->cells[axis] >= box->processes[axis]) continue;
    if (box->rank == 0) {
      fprintf(
          stderr,
          "stencil: %d processes along %c but only %d cells: use fewer ranks or a larger --n%c\n",
          box->processes[axis], "xyz"[axis], options -> cells[axis], "xyz"[axis]);
    }
    return false;
  }
  return true;
}

bool box_create(const struct options* options, struct box* box) {
  int dims[AXES] = {0};
  int coords[AXES];
  const int wrap = options->periodic ? 1 : 0;
  const int periods[AXES] = {wrap, wrap, wrap};
  MPI_Comm_size(MPI_COMM_WORLD, &box->ranks);
  MPI_Dims_create(box->ranks, AXES, dims);
  MPI_Cart_create(MPI_COMM_WORLD, AXES, dims, periods, 0, &box->comm);
  MPI_Comm_rank(box->comm, &box->rank);
  MPI_Cart_coords(box->comm, box->rank, AXES, coords);
  for (int dim = 0; dim < AXES; ++dim) {
    const int axis = opposite(dim);
    box->processes[axis] = dims[dim];
    box->place[axis] = coords[dim];
    MPI_Cart_shift(box->comm, dim, 1, &box->neighbour[axis][SIDE_LOW],
                   &box->neighbour[axis][SIDE_HIGH]);
  }
  divide(options, box);
  return every_rank_has_cells(options, box);
}

void box_free(struct box* box) { MPI_Comm_free(&box->comm); }

static size_t doubles_of_variable(const struct box* box) {
  size_t doubles = 1;
  for (int axis = 0; axis < AXES; ++axis) doubles *= (size_t)box->cells[axis] + 2;
  return doubles;
}

size_t grid_bytes(const struct box* box, int vars) {
  return 2 * (size_t)vars * doubles_of_variable(box) * sizeof(double);
}

// Allocates memory and fills it with zeros. This rank is the first to write the pages, so the
// kernel places them on its NUMA node.
static double* zeroed(size_t doubles) {
  const size_t line = 64;
  const size_t bytes = (doubles * sizeof(double) + line - 1) / line * line;
  double* memory = aligned_alloc(line, bytes);
  if (memory != NULL) memset(memory, 0, bytes);
  return memory;
}

bool grid_create(const struct box* box, int vars, struct grid* grid) {
  memcpy(grid->cells, box->cells, sizeof grid->cells);
  grid->vars = vars;
  grid->stride[AXIS_X] = 1;
  grid->stride[AXIS_Y] = (size_t)box->cells[AXIS_X] + 2;
  grid->stride[AXIS_Z] = grid->stride[AXIS_Y] * ((size_t)box->cells[AXIS_Y] + 2);
  grid->var_stride = doubles_of_variable(box);
  grid->now = zeroed(grid->var_stride * (size_t)vars);
  grid->next = zeroed(grid->var_stride * (size_t)vars);
  if (grid->now != NULL && grid->next != NULL) return true;
  grid_free(grid);
  return false;
}

void grid_free(struct grid* grid) {
  free(grid->now);
  free(grid->next);
  grid->now = NULL;
  grid->next = NULL;
}

// Sets each cell of a row along x to the mean of seven cells. The order of the additions determines
// the bits of the result, so it must not change.
static void average_row(double* restrict out, const double* restrict in, size_t sy, size_t sz,
                        int n) {
  const double seventh = 1.0 / 7.0;
  for (int x = 0; x < n; ++x) {
    const double* c = in + x;
    out[x] = (c[0] + c[-1] + c[1] + *(c - sy) + c[sy] + *(c - sz) + c[sz]) * seventh;
  }
}

void grid_average(struct grid* g, int first, int count) {
  for (int var = first; var < first + count; ++var) {
    for (int z = 0; z < g->cells[AXIS_Z]; ++z) {
      for (int y = 0; y < g->cells[AXIS_Y]; ++y) {
        const size_t at = grid_at(g, var, 0, y, z);
        average_row(g->next + at, g->now + at, g->stride[AXIS_Y], g->stride[AXIS_Z],
                    g->cells[AXIS_X]);
      }
    }
  }
}

void grid_advance(struct grid* grid) {
  double* before = grid->now;
  grid->now = grid->next;
  grid->next = before;
}
