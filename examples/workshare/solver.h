// SPDX-License-Identifier: BSD-3-Clause
// Conjugate gradients on the rows of all ranks.
//
// Sums over all rows are taken plane by plane, and the sums of planes are added up in the order of
// the planes on every rank. So the result is the same, to the last bit, whatever rank holds a plane
// and whatever thread summed it up. (Built with -ffp-contract=off, as a fused multiply-add in one
// build alone would break that.)
#ifndef WORKSHARE_SOLVER_H
#define WORKSHARE_SOLVER_H

#include <stdbool.h>

#include "matrix.h"
#include "mesh.h"

struct solver {
  const struct mesh* mesh;
  const struct matrix* matrix;
  double* solution;    // by row
  double* residual;    // by row
  double* direction;   // ghosted
  double* product;     // by row: matrix * direction
  double* plane_sums;  // by plane of the whole mesh
  int iterations;      // done
  double reduction;    // norm of the residual in units of the first one
  double multiply_s;   // in the loops of matrix * vector
  double vector_s;     // in all other loops
};

// False when memory is short.
bool solver_create(const struct mesh* mesh, const struct matrix* matrix, struct solver* solver);
void solver_free(struct solver* solver);

// Until the residual has fallen by the factor `tolerance`, or `iterations` are done.
void solver_run(struct solver* solver, double tolerance, int iterations);

#endif
