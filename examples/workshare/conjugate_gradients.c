// SPDX-License-Identifier: BSD-3-Clause
// Conjugate gradients with a matrix of 27 points, in the manner of the HPCCG mini-application, with
// adjustable imbalance.
//
// A row of the matrix has 27 for its own point and -1 for each neighbour in the box around the
// point. In the solution all unknowns are 1. Ranks hold slabs; --imbalance makes the slab of the
// last rank thicker than the mean. The shared loops have no schedule clause, so they are static. A
// sum over points adds the sums of lines of points in a fixed order. Therefore the solution and its
// hash are bitwise the same for any number of ranks and threads, and any imbalance. Limit: all
// ranks run on one node (trials.h).
#include <math.h>
#include <mpi.h>

#include "mesh.h"
#include "options.h"
#include "points.h"
#include "series.h"
#include "trials.h"

static const char kName[] = "conjugate_gradients";

static const char kUsage[] =
    "usage: conjugate_gradients [options]\n"
    "\n"
    "Solves a system with a matrix of 27 points by conjugate gradients.\n"
    "\n"
    "  --nx N --ny N --nz N  elements between the points in x, y, z (default 40, 40, 48); z is\n"
    "                        divided over ranks\n"
    "  --imbalance P         the last rank has P percent more elements than the mean, as far as\n"
    "                        every other rank keeps one layer of them (default 0); a list with\n"
    "                        commas solves the system with each value in turn\n"
    "  --repeat N            solve the whole list N times (default 1)\n"
    "  --tolerance T         the residual is to fall by this factor (default 1e-8); 0: do all\n"
    "                        iterations and do not check the solution\n"
    "  --iterations N        at most (default 150)\n"
    "  --json FILE           all times (- for standard output)\n"
    "  --help                this text\n";

// The largest allowed error of the solution, divided by the tolerance of the residual. The
// condition number of the matrix is far below this factor.
static const double kErrorFactor = 1e4;

static struct trials trials = {.imbalances = {1, {0}}, .elements = {40, 40, 48}, .repeat = 1};

static struct {
  int iterations;
  double tolerance;
} options = {.iterations = 150, .tolerance = 1e-8};

static const struct option_row kOptions[] = {
    {"nx", OPTION_WHOLE, &trials.elements[X], 2, 4096},
    {"ny", OPTION_WHOLE, &trials.elements[Y], 2, 4096},
    {"nz", OPTION_WHOLE, &trials.elements[Z], 2, 4096},
    {"imbalance", OPTION_WHOLES, &trials.imbalances, 0, 100000},
    {"repeat", OPTION_WHOLE, &trials.repeat, 1, 1000},
    {"tolerance", OPTION_REAL, &options.tolerance, 0, 0.1},
    {"iterations", OPTION_WHOLE, &options.iterations, 1, 1000000},
    {"json", OPTION_NAME, &trials.json_file, 0, 0},
    {NULL, OPTION_FLAG, NULL, 0, 0},
};

static const struct program kProgram = {kName, kUsage, kOptions};

// --- conjugate gradients

static void turn(struct points* points, double factor) {
  points_waxpby(points, points->residual, factor, points_own_direction(points),
                points_own_direction(points));
}

// Moves the solution by `step` times the direction of search. Returns the square of the new
// residual's norm.
static double advance(struct points* points, double step) {
  points_waxpby(points, points->solution, step, points_own_direction(points), points->solution);
  points_waxpby(points, points->residual, -step, points->product, points->residual);
  return points_dot(points, points->residual, points->residual);
}

// Solves the equations, and stores the number of iterations in `iterations`. Returns the norm of
// the last residual divided by the norm of the first.
static double solve(struct points* points, int* iterations) {
  const double first = points_start(points);
  double square = first;
  turn(points, 0.0);
  for (*iterations = 0; *iterations < options.iterations; ++*iterations) {
    if (square <= options.tolerance * options.tolerance * first) break;
    points_exchange(points);
    points_multiply(points);
    const double before = square;
    square =
        advance(points, square / points_dot(points, points_own_direction(points), points->product));
    turn(points, square / before);
  }
  return sqrt(square / first);
}

// --- a run with one imbalance

static void judge(struct trial* trial, const struct points* points, double reduction) {
  trial->hash = points_hash(points);
  trial->error = points_error(points);
  trial->bound = options.tolerance > 0.0 ? kErrorFactor * options.tolerance : INFINITY;
  if (reduction > options.tolerance && options.tolerance > 0.0) trial->error = INFINITY;
  MPI_Allreduce(MPI_IN_PLACE, &trial->error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &trial->hash, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void run_on_points(struct trial* trial, struct points* points) {
  MPI_Barrier(MPI_COMM_WORLD);
  trial->work = points->mesh->rows;
  trial->start = now_s();
  const double reduction = solve(points, &trial->steps);
  trial->end = now_s();
  trial->loops_s = points->loops_s;
  judge(trial, points, reduction);
}

static bool run_with(struct trial* trial) {
  struct mesh mesh;
  struct points points;
  if (!trials_mesh(kName, &trials, trial->imbalance, &mesh)) return false;
  const bool ok = all_agree(points_create(&mesh, &points));
  if (ok) run_on_points(trial, &points);
  points_free(&points);
  return ok;
}

// Checks for every imbalance that the mesh can be divided, then runs all trials. The check comes
// before the program writes output. Returns the exit status.
static int run(void) {
  struct mesh mesh;
  for (int i = 0; i < trials.imbalances.count; ++i) {
    if (!trials_mesh(kName, &trials, trials.imbalances.values[i], &mesh)) return 2;
  }
  return trials_run(kName, &trials, run_with);
}

int main(int argc, char** argv) { return program_main(&kProgram, argc, argv, run); }
