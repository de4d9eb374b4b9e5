// SPDX-License-Identifier: BSD-3-Clause
// The points of one rank, their rows of a sparse matrix of 27 points, and the loops of conjugate
// gradients.
//
// Points are the nodes of a mesh (mesh.h); row i of the matrix belongs to point i. The direction of
// search is a ghosted vector, with one more plane at each end for the neighbours' values; the other
// vectors have no ghosts. A *line* has the points of one y and z. A sum adds the points of a line,
// then the sums of lines, then those of planes, each in order. Therefore a sum rounds alike for any
// division over ranks. The build needs -ffp-contract=off, because a fused multiply-add in only one
// build would change bits.
#ifndef WORKSHARE_POINTS_H
#define WORKSHARE_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh.h"

struct points {
  const struct mesh* mesh;
  size_t* start;    // start[i]: index of row i in column and value; the row ends at start[i + 1]
  int32_t* column;  // indices in a ghosted vector, ascending within a row
  double* value;
  double *solution, *residual, *product;  // by row
  double* direction;                      // ghosted
  double* line_sums;                      // by line
  double* plane_sums;                     // by plane of the whole mesh
  double loops_s;                         // seconds in loops that can be shared
};

// Allocates all vectors of this rank and makes its rows of the matrix. Returns false when memory is
// short; the caller must call points_free() in this case, too.
bool points_create(const struct mesh* mesh, struct points* points);
void points_free(struct points* points);

// Starts conjugate gradients: sets the solution to 0 and the residual to the right side.
// Collective. Returns the square of the residual's norm.
double points_start(struct points* points);

// Functions with shared loops. points_waxpby() sets out = a + factor * b; out may be a or b.
void points_waxpby(struct points* points, const double* a, double factor, const double* b,
                   double* out);
double points_dot(struct points* points, const double* a, const double* b);  // collective
void points_multiply(struct points* points);  // product = matrix * direction

// Collective: sends the outermost planes of the direction of search to the neighbours, which store
// them as their ghosts.
void points_exchange(struct points* points);

// Two functions return the largest error of the solution at this rank's points, and this rank's
// part of the hash of the result.
double points_error(const struct points* points);
uint64_t points_hash(const struct points* points);

// Returns the elements of the direction vector that belong to this rank, after the ghosts of the
// lower neighbour.
static inline double* points_own_direction(const struct points* points) {
  return points->direction + points->mesh->plane_rows;
}

#endif
