// SPDX-License-Identifier: BSD-3-Clause
// The grid of a rank: the place of the rank's cells in the whole grid, and the values of all
// variables.
//
// Words: a *cell* carries one double for each variable. A rank's box of cells is surrounded by one
// layer of *ghost* cells that repeat the outermost cells of its neighbours. A *plane* is the layer
// of cells (ghosts not included) nearest to one of the six sides; *side* 0 is the low end of an
// axis, side 1 the high end. The ghosts at edges and corners of the box are never filled, because
// the 7-point stencil does not read them.
#ifndef STENCIL_GRID_H
#define STENCIL_GRID_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "options.h"

enum { SIDE_LOW, SIDE_HIGH, SIDES };

// The box of cells of this rank, and its place in the process grid. The last dimension of the
// process grid, which MPI numbers fastest (C order), is x. Few processes thus divide z first, and
// the rows of a plane stay long in memory.
struct box {
  MPI_Comm comm;  // Cartesian
  int rank, ranks;
  int processes[AXES];         // processes along each axis of the process grid
  int place[AXES];             // coordinates of this rank in the process grid
  int neighbour[AXES][SIDES];  // MPI_PROC_NULL at a border that is not periodic
  long whole[AXES];            // cells of the whole grid
  long first[AXES];            // coordinates of this box's first cell in the whole grid
  int cells[AXES];             // cells of this box
};

struct grid {
  int cells[AXES];
  int vars;
  size_t stride[AXES];  // doubles from one cell to the next along an axis
  size_t var_stride;    // doubles from one variable to the next
  double* now;          // values at this step, ghosts included
  double* next;         // values at the next step
};

// Divides the cells over the ranks and fills `box`. Collective over MPI_COMM_WORLD. Returns false
// if an axis has more processes than cells; rank 0 then prints an error.
bool box_create(const struct options* options, struct box* box);
void box_free(struct box* box);

// Makes a grid of zeros. Returns false when memory is short; the grid is then empty.
bool grid_create(const struct box* box, int vars, struct grid* grid);
void grid_free(struct grid* grid);
size_t grid_bytes(const struct box* box, int vars);

// Returns the offset of a cell from grid->now, in doubles. Indices x, y, z count from 0 at the
// first cell that is not a ghost. So -1 is the ghost at the low end, and cells[axis] that at the
// high end.
static inline size_t grid_at(const struct grid* g, int var, int x, int y, int z) {
  return (size_t)var * g->var_stride + (size_t)(z + 1) * g->stride[AXIS_Z] +
         (size_t)(y + 1) * g->stride[AXIS_Y] + (size_t)(x + 1);
}

// Computes a step: sets each cell of `next` to the mean of the cell and its six neighbours in
// `now`. Does so for the variables [first, first + count).
void grid_average(struct grid* grid, int first, int count);

// Exchanges the arrays `now` and `next`, so that the step just computed becomes the current step.
void grid_advance(struct grid* grid);

#endif
