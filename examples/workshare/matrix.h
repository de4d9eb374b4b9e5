// SPDX-License-Identifier: BSD-3-Clause
// The system of equations of one rank: a sparse matrix by rows, and the right side.
//
// A row is assembled as a whole from the up to eight elements around its node. No two rows write to
// the same element, so the loop over rows needs no atomics and its result does not depend on the
// order. Nodes on the border have the row "1 * u = given value". Their contributions to other rows
// are moved to the right side, which keeps the matrix symmetric.
#ifndef WORKSHARE_MATRIX_H
#define WORKSHARE_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh.h"

// Rows that the loops hand out at a time: assembling one takes hundreds of times as long as
// multiplying by it.
struct chunks {
  int assembly, multiply;
};

struct matrix {
  int rows;
  struct chunks chunks;
  size_t* start;    // of row i in column and value; its end is start[i + 1]
  int32_t* column;  // places in a ghosted vector, ascending
  double* value;
  double* right;  // by row
};

// Memory and the places of all entries, but no values. False when memory is short.
bool matrix_create(const struct mesh* mesh, struct chunks chunks, struct matrix* matrix);
void matrix_free(struct matrix* matrix);

// The shared loops.
void matrix_assemble(const struct mesh* mesh, struct matrix* matrix);
void matrix_multiply(const struct matrix* matrix, const double* ghosted, double* out);

#endif
