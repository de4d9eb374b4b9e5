// SPDX-License-Identifier: BSD-3-Clause
// The system of equations of one rank: a sparse matrix by rows, and the right side.
//
// An iteration of the assembly computes a whole row from the up to eight elements around its node
// and writes only to this row. Therefore the loop over rows needs no atomics, and its result does
// not depend on the order. Nodes on the border have the row "1 * u = given value". Their
// contributions to other rows are moved to the right side, which keeps the matrix symmetric.
#ifndef WORKSHARE_MATRIX_H
#define WORKSHARE_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh.h"

// The numbers of rows that the shared loops hand out at a time, for assembly and for
// multiplication. Assembling a row takes hundreds of times as long as multiplying by a row.
struct chunks {
  int assembly, multiply;
};

struct matrix {
  int rows;
  struct chunks chunks;
  size_t* start;    // start[i]: index of row i in column and value; the row ends at start[i + 1]
  int32_t* column;  // indices in a ghosted vector, ascending within a row
  double* value;
  double* right;  // the right side, by row
};

// Allocates the matrix and fills `start`; matrix_assemble() fills `column`, `value` and `right`.
// Returns false when memory is short.
bool matrix_create(const struct mesh* mesh, struct chunks chunks, struct matrix* matrix);
void matrix_free(struct matrix* matrix);

// Two functions with shared loops. matrix_assemble() fills columns, values and the right side.
// matrix_multiply() sets `out` to the product of the matrix and a ghosted vector. Such a vector has
// this rank's values and those of the neighbours' adjacent planes.
void matrix_assemble(const struct mesh* mesh, struct matrix* matrix);
void matrix_multiply(const struct matrix* matrix, const double* ghosted, double* out);

#endif
