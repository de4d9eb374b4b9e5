// SPDX-License-Identifier: BSD-3-Clause
// Conjugate gradients. See solver.h.
#include "solver.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "loops.h"
#include "series.h"

bool solver_create(const struct mesh* mesh, const struct matrix* matrix, struct solver* solver) {
  const size_t rows = (size_t)mesh->rows;
  *solver = (struct solver){.mesh = mesh, .matrix = matrix};
  solver->solution = calloc(rows, sizeof(double));
  solver->residual = calloc(rows, sizeof(double));
  solver->direction = calloc(mesh_ghosted_length(mesh), sizeof(double));
  solver->product = calloc(rows, sizeof(double));
  solver->plane_sums = calloc((size_t)mesh->nodes[Z], sizeof(double));
  return solver->solution != NULL && solver->residual != NULL && solver->direction != NULL &&
         solver->product != NULL && solver->plane_sums != NULL;
}

void solver_free(struct solver* solver) {
  free(solver->solution);
  free(solver->residual);
  free(solver->direction);
  free(solver->product);
  free(solver->plane_sums);
  *solver = (struct solver){0};
}

// --- planes of vectors and their sums

static size_t plane_at(const struct solver* solver, int plane) {
  return (size_t)plane * (size_t)solver->mesh->plane_rows;
}

// Returns the elements of the direction vector that belong to this rank, after the ghosts of the
// lower neighbour.
static double* own_direction(const struct solver* solver) {
  return solver->direction + solver->mesh->plane_rows;
}

static double dot(const double* a, const double* b, int count) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

static void add_multiple(double* out, double factor, const double* in, int count) {
  for (int i = 0; i < count; ++i) out[i] += factor * in[i];
}

// Collective. Returns the sum of the sums of all ranks' planes, added in the order of the planes.
// Each plane belongs to one rank, and all other ranks contribute zeros for it, so MPI_Allreduce
// rounds nothing.
static double sum_of_planes(struct solver* solver) {
  const int planes = solver->mesh->nodes[Z];
  double sum = 0.0;
  MPI_Allreduce(MPI_IN_PLACE, solver->plane_sums, planes, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int plane = 0; plane < planes; ++plane) sum += solver->plane_sums[plane];
  return sum;
}

// Sets the sums of all planes to zero, before this rank fills those of its own planes. Returns the
// address of the sum of its first plane.
static double* own_sums(struct solver* solver) {
  memset(solver->plane_sums, 0, (size_t)solver->mesh->nodes[Z] * sizeof(double));
  return solver->plane_sums + solver->mesh->first;
}

// --- the shared loops of conjugate gradients

static void multiply(struct solver* solver) {
  const double start = now_s();
  matrix_multiply(solver->matrix, solver->direction, solver->product);
  solver->multiply_s += now_s() - start;
}

static double direction_times_product(struct solver* solver) {
  const double start = now_s();
  const struct mesh* mesh = solver->mesh;
  const double* direction = own_direction(solver);
  double* sums = own_sums(solver);
  SHARED_FOR(CHUNKS(1))
  for (int plane = 0; plane < mesh->planes; ++plane) {
    const size_t at = plane_at(solver, plane);
    sums[plane] = dot(direction + at, solver->product + at, mesh->plane_rows);
  }
  solver->vector_s += now_s() - start;
  return sum_of_planes(solver);
}

// Collective. Moves the solution by `step` times the direction of search. Returns the square of the
// new residual's norm.
static double advance(struct solver* solver, double step) {
  const double start = now_s();
  const struct mesh* mesh = solver->mesh;
  const double* direction = own_direction(solver);
  double* sums = own_sums(solver);
  SHARED_FOR(CHUNKS(1))
  for (int plane = 0; plane < mesh->planes; ++plane) {
    const size_t at = plane_at(solver, plane);
    double* residual = solver->residual + at;
    add_multiple(solver->solution + at, step, direction + at, mesh->plane_rows);
    add_multiple(residual, -step, solver->product + at, mesh->plane_rows);
    sums[plane] = dot(residual, residual, mesh->plane_rows);
  }
  solver->vector_s += now_s() - start;
  return sum_of_planes(solver);
}

static void next_in_plane(double* direction, const double* residual, double factor, int count) {
  for (int i = 0; i < count; ++i) direction[i] = residual[i] + factor * direction[i];
}

static void turn(struct solver* solver, double factor) {
  const double start = now_s();
  const struct mesh* mesh = solver->mesh;
  double* direction = own_direction(solver);
  SHARED_FOR(CHUNKS(1))
  for (int plane = 0; plane < mesh->planes; ++plane) {
    const size_t at = plane_at(solver, plane);
    next_in_plane(direction + at, solver->residual + at, factor, mesh->plane_rows);
  }
  solver->vector_s += now_s() - start;
}

// --- start and iterations

// Sends the outermost planes of the direction of search to the neighbours, and receives theirs as
// this rank's ghosts.
static void exchange_ghosts(struct solver* solver) {
  const struct mesh* mesh = solver->mesh;
  const int count = mesh->plane_rows;
  const int below = mesh->rank > 0 ? mesh->rank - 1 : MPI_PROC_NULL;
  const int above = mesh->rank + 1 < mesh->ranks ? mesh->rank + 1 : MPI_PROC_NULL;
  double* low = own_direction(solver);
  double* high = low + plane_at(solver, mesh->planes - 1);
  MPI_Sendrecv(low, count, MPI_DOUBLE, below, 0, high + count, count, MPI_DOUBLE, above, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(high, count, MPI_DOUBLE, above, 1, solver->direction, count, MPI_DOUBLE, below, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Sets the elements of the vectors for the node of this matrix row. The first solution is the given
// value on the border and zero at inner nodes. The residual of an inner node is then its right
// side, since its row has no entries for border nodes. That of a border node is zero.
static void start_row(struct solver* solver, int row) {
  const bool border = mesh_on_border(solver->mesh, mesh_node(solver->mesh, row));
  const double right = solver->matrix->right[row];
  solver->solution[row] = border ? right : 0.0;
  solver->residual[row] = border ? 0.0 : right;
  own_direction(solver)[row] = 0.0;
}

static double start(struct solver* solver) {
  solver->iterations = 0;
  for (int row = 0; row < solver->mesh->rows; ++row) start_row(solver, row);
  memset(solver->product, 0, (size_t)solver->mesh->rows * sizeof(double));
  return advance(solver, 0.0);
}

void solver_run(struct solver* solver, double tolerance, int iterations) {
  const double first = start(solver);
  double square = first;
  turn(solver, 0.0);
  while (solver->iterations < iterations && square > tolerance * tolerance * first) {
    exchange_ghosts(solver);
    multiply(solver);
    const double before = square;
    square = advance(solver, square / direction_times_product(solver));
    turn(solver, square / before);
    ++solver->iterations;
  }
  solver->reduction = first > 0.0 ? sqrt(square / first) : 0.0;
}
