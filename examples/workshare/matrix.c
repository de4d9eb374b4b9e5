// SPDX-License-Identifier: BSD-3-Clause
// The assembly of a matrix, and its product with a vector. See matrix.h.
#include "matrix.h"

#include <stdlib.h>

#include "element.h"
#include "loops.h"

// --- structure of the matrix

// Returns how many of three nodes are inner nodes, that is, not on the border: the node at
// coordinate `at` of an axis and its two neighbours along this axis.
static int inner_neighbours(const struct mesh* mesh, int axis, int at) {
  const int last_inner = mesh->elements[axis] - 1;
  const int low = at - 1 < 1 ? 1 : at - 1;
  const int high = at + 1 > last_inner ? last_inner : at + 1;
  return high - low + 1;
}

static size_t entries_of_row(const struct mesh* mesh, int row) {
  const struct node node = mesh_node(mesh, row);
  size_t entries = 1;
  if (mesh_on_border(mesh, node)) return entries;
  for (int axis = 0; axis < AXES; ++axis) {
    entries *= (size_t)inner_neighbours(mesh, axis, node.at[axis]);
  }
  return entries;
}

bool matrix_create(const struct mesh* mesh, struct chunks chunks, struct matrix* matrix) {
  const size_t rows = (size_t)mesh->rows;
  *matrix = (struct matrix){.rows = mesh->rows, .chunks = chunks};
  matrix->start = calloc(rows + 1, sizeof *matrix->start);
  matrix->right = calloc(rows, sizeof *matrix->right);
  if (matrix->start == NULL || matrix->right == NULL) return false;
  for (int row = 0; row < mesh->rows; ++row) {
    matrix->start[row + 1] = matrix->start[row] + entries_of_row(mesh, row);
  }
  matrix->column = calloc(matrix->start[rows], sizeof *matrix->column);
  matrix->value = calloc(matrix->start[rows], sizeof *matrix->value);
  return matrix->column != NULL && matrix->value != NULL;
}

void matrix_free(struct matrix* matrix) {
  free(matrix->start);
  free(matrix->column);
  free(matrix->value);
  free(matrix->right);
  *matrix = (struct matrix){0};
}

// --- assembly of the matrix

enum { NEIGHBOURS = 27 };  // a node and its surrounding nodes: z, y, x from -1 to 1, x fastest

static int bit(int corner, int axis) { return (corner >> axis) & 1; }

// An element has a node as its corner `own`. Returns the index of the element's corner `c` among
// the NEIGHBOURS of this node.
static int neighbour_of_corner(int own, int c) {
  int place = 0;
  for (int axis = AXES - 1; axis >= 0; --axis) {
    place = 3 * place + bit(c, axis) - bit(own, axis) + 1;
  }
  return place;
}

static struct node neighbour(struct node node, int place) {
  struct node other = node;
  for (int axis = 0; axis < AXES; ++axis, place /= 3) other.at[axis] += place % 3 - 1;
  return other;
}

// Adds the contribution of one element to the row of `node`, whose entries are in `sums`. The node
// is corner `own` of the element. Returns the element's contribution to the right side.
static double add_element(const struct mesh* mesh, const struct shapes* shapes, struct node node,
                          int own, double* sums) {
  double corners[CORNERS][DIMENSIONS], row[CORNERS];
  for (int c = 0; c < CORNERS; ++c) {
    mesh_position(mesh, neighbour(node, neighbour_of_corner(own, c)), corners[c]);
  }
  const double load = element_row(shapes, corners, own, row);
  for (int c = 0; c < CORNERS; ++c) sums[neighbour_of_corner(own, c)] += row[c];
  return load;
}

static double border_value(const struct mesh* mesh, struct node node) {
  double position[DIMENSIONS];
  mesh_position(mesh, node, position);
  return problem_solution(position);
}

static void assemble_border_row(const struct mesh* mesh, struct node node, int row,
                                const struct matrix* matrix) {
  matrix->column[matrix->start[row]] = mesh_ghosted(mesh, node);
  matrix->value[matrix->start[row]] = 1.0;
  matrix->right[row] = border_value(mesh, node);
}

static void assemble_row(const struct mesh* mesh, const struct shapes* shapes, int row,
                         const struct matrix* matrix) {
  const struct node node = mesh_node(mesh, row);
  double sums[NEIGHBOURS] = {0.0};
  double right = 0.0;
  if (mesh_on_border(mesh, node)) {
    assemble_border_row(mesh, node, row, matrix);
    return;
  }
  for (int own = 0; own < CORNERS; ++own) right += add_element(mesh, shapes, node, own, sums);
  size_t entry = matrix->start[row];
  for (int place = 0; place < NEIGHBOURS; ++place) {
    const struct node other = neighbour(node, place);
    if (mesh_on_border(mesh, other)) {
      right -= sums[place] * border_value(mesh, other);
      continue;
    }
    matrix->column[entry] = mesh_ghosted(mesh, other);
    matrix->value[entry++] = sums[place];
  }
  matrix->right[row] = right;
}

void matrix_assemble(const struct mesh* mesh, struct matrix* matrix) {
  struct shapes shapes;
  shapes_fill(&shapes);
  SHARED_FOR(CHUNKS(matrix->chunks.assembly))
  for (int row = 0; row < matrix->rows; ++row) assemble_row(mesh, &shapes, row, matrix);
}

// --- product of matrix and vector

static double row_times(const struct matrix* matrix, int row, const double* ghosted) {
  double sum = 0.0;
  for (size_t entry = matrix->start[row]; entry < matrix->start[row + 1]; ++entry) {
    sum += matrix->value[entry] * ghosted[matrix->column[entry]];
  }
  return sum;
}

void matrix_multiply(const struct matrix* matrix, const double* ghosted, double* out) {
  SHARED_FOR(CHUNKS(matrix->chunks.multiply))
  for (int row = 0; row < matrix->rows; ++row) out[row] = row_times(matrix, row, ghosted);
}
