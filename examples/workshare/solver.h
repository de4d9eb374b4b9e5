// SPDX-License-Identifier: BSD-3-Clause
// Conjugate gradients on the rows of all ranks.
//
// A sum over all rows is the sum of the sums of planes (all nodes of one z). Every rank adds the
// sums of planes in the order of the planes. The bits of the result thus depend neither on the rank
// that holds a plane nor on the thread that sums it. The build needs -ffp-contract=off, because a
// fused multiply-add in only one build would change bits.
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
  int iterations;      // number of iterations done
  double reduction;    // norm of the residual over the norm of the first residual
  double multiply_s;   // seconds in the loops of matrix * vector
  double vector_s;     // seconds in all other loops
};

// Allocates the vectors of this rank. Returns false when memory is short.
bool solver_create(const struct mesh* mesh, const struct matrix* matrix, struct solver* solver);
void solver_free(struct solver* solver);

// Collective. Iterates until the norm of the residual has fallen by the factor `tolerance`, or
// `iterations` iterations are done.
void solver_run(struct solver* solver, double tolerance, int iterations);

#endif
