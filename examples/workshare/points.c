// SPDX-License-Identifier: BSD-3-Clause
// The matrix of 27 points, and the loops over points. See points.h.
#include "points.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "loops.h"
#include "series.h"
#include "trials.h"

static const double kDiagonal = 27.0;
static const double kNeighbour = -1.0;

// --- the matrix of 27 points

enum { NEIGHBOURS = 27 };  // a point and its surrounding points

// Sets `other` to neighbour number `place` of a point. Neighbours are numbered by their offsets z,
// y, x from -1 to 1, x fastest. Returns false if the neighbour is outside of the mesh.
static bool neighbour(const struct mesh* mesh, struct node node, int place, struct node* other) {
  for (int axis = 0; axis < AXES; ++axis, place /= 3) {
    other->at[axis] = node.at[axis] + place % 3 - 1;
    if (other->at[axis] < 0 || other->at[axis] >= mesh->nodes[axis]) return false;
  }
  return true;
}

static size_t entries_of_row(const struct mesh* mesh, int row) {
  struct node other;
  size_t entries = 0;
  for (int place = 0; place < NEIGHBOURS; ++place) {
    entries += neighbour(mesh, mesh_node(mesh, row), place, &other);
  }
  return entries;
}

static void fill_row(struct points* points, int row) {
  const struct node node = mesh_node(points->mesh, row);
  size_t entry = points->start[row];
  struct node other;
  for (int place = 0; place < NEIGHBOURS; ++place) {
    if (!neighbour(points->mesh, node, place, &other)) continue;
    points->column[entry] = mesh_ghosted(points->mesh, other);
    points->value[entry++] = place == NEIGHBOURS / 2 ? kDiagonal : kNeighbour;
  }
}

static bool create_matrix(struct points* points) {
  const struct mesh* mesh = points->mesh;
  points->start = calloc((size_t)mesh->rows + 1, sizeof *points->start);
  if (points->start == NULL) return false;
  for (int row = 0; row < mesh->rows; ++row) {
    points->start[row + 1] = points->start[row] + entries_of_row(mesh, row);
  }
  points->column = calloc(points->start[mesh->rows], sizeof *points->column);
  points->value = calloc(points->start[mesh->rows], sizeof *points->value);
  if (points->column == NULL || points->value == NULL) return false;
  for (int row = 0; row < mesh->rows; ++row) fill_row(points, row);
  return true;
}

static int lines_of(const struct mesh* mesh) { return mesh->planes * mesh->nodes[Y]; }

bool points_create(const struct mesh* mesh, struct points* points) {
  const size_t rows = (size_t)mesh->rows;
  *points = (struct points){.mesh = mesh};
  points->solution = calloc(rows, sizeof(double));
  points->residual = calloc(rows, sizeof(double));
  points->product = calloc(rows, sizeof(double));
  points->direction = calloc(mesh_ghosted_length(mesh), sizeof(double));
  points->line_sums = calloc((size_t)lines_of(mesh), sizeof(double));
  points->plane_sums = calloc((size_t)mesh->nodes[Z], sizeof(double));
  return points->solution != NULL && points->residual != NULL && points->product != NULL &&
         points->direction != NULL && points->line_sums != NULL && points->plane_sums != NULL &&
         create_matrix(points);
}

void points_free(struct points* points) {
  free(points->start);
  free(points->column);
  free(points->value);
  free(points->solution);
  free(points->residual);
  free(points->product);
  free(points->direction);
  free(points->line_sums);
  free(points->plane_sums);
  *points = (struct points){0};
}

// --- the shared loops of conjugate gradients

void points_waxpby(struct points* points, const double* a, double factor, const double* b,
                   double* out) {
  const double start = now_s();
  const int rows = points->mesh->rows;
  SHARED_FOR()
  for (int row = 0; row < rows; ++row) out[row] = a[row] + factor * b[row];
  points->loops_s += now_s() - start;
}

static double dot_of_line(const double* a, const double* b, int count) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

static void sum_lines(struct points* points, const double* a, const double* b) {
  const double start = now_s();
  const int length = points->mesh->nodes[X], lines = lines_of(points->mesh);
  double* sums = points->line_sums;
  SHARED_FOR()
  for (int line = 0; line < lines; ++line) {
    const size_t at = (size_t)line * (size_t)length;
    sums[line] = dot_of_line(a + at, b + at, length);
  }
  points->loops_s += now_s() - start;
}

static void sum_planes(struct points* points) {
  const struct mesh* mesh = points->mesh;
  memset(points->plane_sums, 0, (size_t)mesh->nodes[Z] * sizeof(double));
  for (int line = 0; line < lines_of(mesh); ++line) {
    points->plane_sums[mesh->first + line / mesh->nodes[Y]] += points->line_sums[line];
  }
}

// Returns the scalar product of `a` and `b`: the sums of all ranks' planes, added in the order of
// the planes. Each plane belongs to one rank, and all other ranks contribute zeros for it, so
// MPI_Allreduce rounds nothing.
double points_dot(struct points* points, const double* a, const double* b) {
  const int planes = points->mesh->nodes[Z];
  double sum = 0.0;
  sum_lines(points, a, b);
  sum_planes(points);
  MPI_Allreduce(MPI_IN_PLACE, points->plane_sums, planes, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int plane = 0; plane < planes; ++plane) sum += points->plane_sums[plane];
  return sum;
}

static double row_times(const struct points* points, int row) {
  double sum = 0.0;
  for (size_t entry = points->start[row]; entry < points->start[row + 1]; ++entry) {
    sum += points->value[entry] * points->direction[points->column[entry]];
  }
  return sum;
}

void points_multiply(struct points* points) {
  const double start = now_s();
  const int rows = points->mesh->rows;
  SHARED_FOR()
  for (int row = 0; row < rows; ++row) points->product[row] = row_times(points, row);
  points->loops_s += now_s() - start;
}

// --- start, exchange of ghosts, and result

static double right_side(const struct points* points, int row) {
  const size_t entries = points->start[row + 1] - points->start[row];
  return kDiagonal + kNeighbour * (double)(entries - 1);  // the product with a solution of ones
}

double points_start(struct points* points) {
  for (int row = 0; row < points->mesh->rows; ++row) {
    points->solution[row] = 0.0;
    points->residual[row] = right_side(points, row);
  }
  points->loops_s = 0.0;
  return points_dot(points, points->residual, points->residual);
}

void points_exchange(struct points* points) {
  const struct mesh* mesh = points->mesh;
  const int count = mesh->plane_rows;
  const int below = mesh->rank > 0 ? mesh->rank - 1 : MPI_PROC_NULL;
  const int above = mesh->rank + 1 < mesh->ranks ? mesh->rank + 1 : MPI_PROC_NULL;
  double* low = points_own_direction(points);
  double* high = low + (size_t)(mesh->planes - 1) * (size_t)count;
  MPI_Sendrecv(low, count, MPI_DOUBLE, below, 0, high + count, count, MPI_DOUBLE, above, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(high, count, MPI_DOUBLE, above, 1, points->direction, count, MPI_DOUBLE, below, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

double points_error(const struct points* points) {
  double largest = 0.0;
  for (int row = 0; row < points->mesh->rows; ++row) {
    const double error = fabs(points->solution[row] - 1.0);
    if (!(error <= largest)) largest = error;  // true also for a NaN
  }
  return largest;
}

uint64_t points_hash(const struct points* points) {
  const uint64_t first = (uint64_t)points->mesh->first * (uint64_t)points->mesh->plane_rows;
  uint64_t sum = 0;
  for (int row = 0; row < points->mesh->rows; ++row) {
    sum += hash_of(points->solution[row], first + (uint64_t)row);
  }
  return sum;
}
