// SPDX-License-Identifier: BSD-3-Clause
// A Poisson problem on hexahedral finite elements, in the manner of the miniFE mini-application:
// assembly of a sparse matrix, then conjugate gradients, with adjustable imbalance.
//
// Ranks hold slabs of the mesh; --imbalance makes the slab of the last rank thicker than the mean.
// The loops over rows and planes are shared. Any rank or thread adds the terms of a row or of a
// plane in the same order. Therefore the solution and its hash are bitwise the same for any number
// of ranks and threads, any imbalance and any schedule. Limit: all ranks run on one node
// (series.h).
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"
#include "json.h"
#include "loops.h"
#include "matrix.h"
#include "mesh.h"
#include "mix.h"
#include "options.h"
#include "series.h"
#include "solver.h"

static const char kUsage[] =
    "usage: finite_elements [options]\n"
    "\n"
    "Solves a Poisson problem in the unit cube with hexahedral elements and conjugate gradients.\n"
    "\n"
    "  --nx N --ny N --nz N  elements in x, y, z (default 40 each); z is divided over ranks\n"
    "  --imbalance P         the last rank has P percent more elements than the mean, as far as\n"
    "                        every other rank keeps one layer of them (default 0); a list with\n"
    "                        commas solves the problem with each value in turn\n"
    "  --repeat N            solve the whole list N times (default 1)\n"
    "  --tolerance T         the residual is to fall by this factor (default 1e-8); 0: do all\n"
    "                        iterations and do not check the solution\n"
    "  --iterations N        at most (default 500)\n"
    "  --chunk C             rows that a product hands out at a time (default 128)\n"
    "  --assembly-chunk C    rows that the assembly hands out at a time (default 8)\n"
    "  --json FILE           all times (- for standard output)\n"
    "  --help                this text\n";

// The largest allowed error of the solution, divided by h^2 for elements of edge h. The error that
// this problem has is less than a third of this limit.
static const double kErrorFactor = 1.5;

static struct {
  int elements[AXES];
  struct wholes imbalances;
  int repeat, iterations;
  struct chunks chunks;
  double tolerance;
  const char* json_file;
} options = {.elements = {40, 40, 40},
             .imbalances = {1, {0}},
             .repeat = 1,
             .iterations = 500,
             .chunks = {.assembly = 8, .multiply = 128},
             .tolerance = 1e-8};

static const struct option_row kOptions[] = {
    {"nx", OPTION_WHOLE, &options.elements[X], 2, 4096},
    {"ny", OPTION_WHOLE, &options.elements[Y], 2, 4096},
    {"nz", OPTION_WHOLE, &options.elements[Z], 2, 4096},
    {"imbalance", OPTION_WHOLES, &options.imbalances, 0, 100000},
    {"repeat", OPTION_WHOLE, &options.repeat, 1, 1000},
    {"tolerance", OPTION_REAL, &options.tolerance, 0, 0.1},
    {"iterations", OPTION_WHOLE, &options.iterations, 1, 1000000},
    {"chunk", OPTION_WHOLE, &options.chunks.multiply, 1, 1 << 24},
    {"assembly-chunk", OPTION_WHOLE, &options.chunks.assembly, 1, 1 << 24},
    {"json", OPTION_NAME, &options.json_file, 0, 0},
    {NULL, OPTION_FLAG, NULL, 0, 0},
};

static const struct program kProgram = {"finite_elements", kUsage, kOptions};

// The measurements of a rank. All members are doubles, so that rank 0 can gather them by one
// MPI_Gather.
struct rank_times {
  double assembly_s, multiply_s, vector_s;  // seconds in loops
  double solve_s;                           // seconds of the solver, messages and waiting included
};

enum { TIMES_OF_RANK = sizeof(struct rank_times) / sizeof(double) };

struct run {
  int imbalance;  // requested by --imbalance, percent
  struct mesh mesh;
  struct matrix matrix;
  struct solver solver;
  struct rank_times times;
  struct rank_times* all;      // on rank 0, by rank
  double assembly_s, solve_s;  // from the first rank's start to the last rank's end
  double error;                // largest error at any node
  uint64_t hash;
};

static bool all_agree(bool ok) {
  int word = ok;
  MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return word != 0;
}

// --- the two phases: assembly and solver

// Collective. Returns the time in seconds from the earliest `start` of a rank to the latest `end`.
static double wall_s(double start, double end) {
  double bounds[2] = {-start, end};
  MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return bounds[0] + bounds[1];
}

static void assemble(struct run* run) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_s();
  matrix_assemble(&run->mesh, &run->matrix);
  run->times.assembly_s = now_s() - start;
  MPI_Barrier(MPI_COMM_WORLD);
  run->assembly_s = wall_s(start, now_s());
}

static void solve(struct run* run) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_s();
  solver_run(&run->solver, options.tolerance, options.iterations);
  const double end = now_s();
  run->times.solve_s = end - start;
  run->times.multiply_s = run->solver.multiply_s;
  run->times.vector_s = run->solver.vector_s;
  run->solve_s = wall_s(start, end);
}

// --- error and hash of the solution

static double largest_error(const struct run* run) {
  double largest = 0.0;
  for (int row = 0; row < run->mesh.rows; ++row) {
    double position[AXES];
    mesh_position(&run->mesh, mesh_node(&run->mesh, row), position);
    const double error = fabs(run->solver.solution[row] - problem_solution(position));
    if (!(error <= largest)) largest = error;  // true also for a NaN
  }
  return largest;
}

// Returns the sum, over the nodes of this rank, of a hash of the value's bits and the node's place
// in the whole mesh. The sum over all ranks does not depend on the division of nodes over ranks.
static uint64_t hash_of_solution(const struct run* run) {
  const uint64_t first = (uint64_t)run->mesh.first * (uint64_t)run->mesh.plane_rows;
  uint64_t sum = 0;
  for (int row = 0; row < run->mesh.rows; ++row) {
    uint64_t bits;
    memcpy(&bits, &run->solver.solution[row], sizeof bits);
    sum += mix64(bits ^ mix64(first + (uint64_t)row));
  }
  return sum;
}

static void look_at_solution(struct run* run) {
  run->error = largest_error(run);
  run->hash = hash_of_solution(run);
  MPI_Allreduce(MPI_IN_PLACE, &run->error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &run->hash, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static double allowed_error(void) {
  double h = 0.0;
  for (int axis = 0; axis < AXES; ++axis) h = fmax(h, 1.0 / options.elements[axis]);
  return kErrorFactor * h * h + options.tolerance;
}

static bool solution_is_right(const struct run* run) {
  if (options.tolerance == 0.0) return true;
  if (!(run->solver.reduction <= options.tolerance)) {
    if (run->mesh.rank == 0) {
      fprintf(stderr,
              "finite_elements: not solved in %d iterations: the residual fell by %.1e only: "
              "use more --iterations or a larger --tolerance\n",
              run->solver.iterations, run->solver.reduction);
    }
    return false;
  }
  if (run->error <= allowed_error()) return true;
  if (run->mesh.rank == 0) {
    fprintf(stderr, "finite_elements: the solution is WRONG: its error is %.1e (allowed %.1e)\n",
            run->error, allowed_error());
  }
  return false;
}

// --- output of results

// Returns by how many percent the last rank's number of layers exceeds the mean. The number is
// rounded, so the result may differ from --imbalance.
static double reached_imbalance(const struct run* run) {
  const struct mesh* mesh = &run->mesh;
  const double mean = (double)mesh->elements[Z] / mesh->ranks;
  return 100.0 * (mesh_layers_of(mesh, run->imbalance, mesh->ranks - 1) / mean - 1.0);
}

static double loops_of(const struct rank_times* times) {
  return times->multiply_s + times->vector_s;
}

// Returns the mean over ranks of the seconds in loops that can be shared: in the assembly and in
// the solver.
static double mean_of_loops(const struct run* run) {
  double sum = 0.0;
  for (int rank = 0; rank < run->mesh.ranks; ++rank) {
    sum += run->all[rank].assembly_s + loops_of(&run->all[rank]);
  }
  return sum / run->mesh.ranks;
}

// Returns the time that the run would take with evenly shared loops. It is the wall time less the
// excess of the largest time of a rank in loops over the mean of the ranks. Valid only if no rank
// runs iterations of another rank: in a plain run, or in a build with -DWORKSHARE=plain.
static double ideal_s(const struct run* run) {
  double longest = 0.0;
  for (int rank = 0; rank < run->mesh.ranks; ++rank) {
    longest = fmax(longest, run->all[rank].assembly_s + loops_of(&run->all[rank]));
  }
  return run->assembly_s + run->solve_s - (longest - mean_of_loops(run));
}

static void write_rank(struct json* json, const struct run* run, int rank) {
  const struct rank_times* times = &run->all[rank];
  json_begin(json, NULL, '{');
  json_whole(json, "rank", rank);
  json_whole(json, "work", mesh_layers_of(&run->mesh, run->imbalance, rank));
  json_real(json, "assembly_s", times->assembly_s);
  json_real(json, "multiply_s", times->multiply_s);
  json_real(json, "vector_s", times->vector_s);
  json_real(json, "solve_s", times->solve_s);
  json_end(json, '}');
}

static void write_problem(struct json* json, const struct run* run) {
  const double elements[AXES] = {options.elements[X], options.elements[Y], options.elements[Z]};
  json_text(json, "program", "finite_elements");
  json_text(json, "variant", LOOPS_VARIANT);
  json_whole(json, "ranks", run->mesh.ranks);
  json_whole(json, "threads", loops_threads());
  json_reals(json, "elements", elements, AXES);
  json_whole(json, "imbalance", run->imbalance);
  json_real(json, "reached_imbalance", reached_imbalance(run));
  json_whole(json, "chunk", options.chunks.multiply);
  json_whole(json, "assembly_chunk", options.chunks.assembly);
}

static void write_json(struct json* json, const struct run* run) {
  if (json->file == NULL) return;
  write_problem(json, run);
  json_whole(json, "iterations", run->solver.iterations);
  json_real(json, "residual", run->solver.reduction);
  json_real(json, "error", run->error);
  json_hash(json, "hash", run->hash);
  json_real(json, "assembly_s", run->assembly_s);
  json_real(json, "solve_s", run->solve_s);
  json_real(json, "total_s", run->assembly_s + run->solve_s);
  json_real(json, "mean_loops_s", mean_of_loops(run));
  json_real(json, "ideal_s", ideal_s(run));
  json_begin(json, "times", '[');
  for (int rank = 0; rank < run->mesh.ranks; ++rank) write_rank(json, run, rank);
  json_end(json, ']');
}

static void print_result(const struct run* run) {
  printf("finite_elements (%s): %d ranks, %d threads, %d x %d x %d elements, imbalance %.0f %%\n",
         LOOPS_VARIANT, run->mesh.ranks, loops_threads(), options.elements[X], options.elements[Y],
         options.elements[Z], reached_imbalance(run));
  printf("%d iterations: residual %.2e, error %.2e, hash %016llx\n", run->solver.iterations,
         run->solver.reduction, run->error, (unsigned long long)run->hash);
  printf("  rank  layers  assembly ms  loops of solve ms  solve ms\n");
  for (int rank = 0; rank < run->mesh.ranks; ++rank) {
    const struct rank_times* times = &run->all[rank];
    printf("  %4d  %6d  %11.1f  %17.1f  %8.1f\n", rank,
           mesh_layers_of(&run->mesh, run->imbalance, rank), 1e3 * times->assembly_s,
           1e3 * loops_of(times), 1e3 * times->solve_s);
  }
  printf("wall: assembly %.1f ms, solve %.1f ms, total %.1f ms; in loops, mean of ranks, %.1f ms\n",
         1e3 * run->assembly_s, 1e3 * run->solve_s, 1e3 * (run->assembly_s + run->solve_s),
         1e3 * mean_of_loops(run));
}

static void gather_times(struct run* run) {
  MPI_Gather(&run->times, TIMES_OF_RANK, MPI_DOUBLE, run->all, TIMES_OF_RANK, MPI_DOUBLE, 0,
             MPI_COMM_WORLD);
}

// --- a run with one imbalance, and all runs

static bool acquire_memory(struct run* run) {
  run->all = calloc((size_t)run->mesh.ranks, sizeof *run->all);
  const bool ok = run->all != NULL && matrix_create(&run->mesh, options.chunks, &run->matrix) &&
                  solver_create(&run->mesh, &run->matrix, &run->solver);
  if (all_agree(ok)) return true;
  if (run->mesh.rank == 0) {
    fprintf(stderr, "finite_elements: not enough memory: use fewer elements\n");
  }
  return false;
}

static void release_memory(struct run* run) {
  solver_free(&run->solver);
  matrix_free(&run->matrix);
  free(run->all);
}

static int run_on_mesh(struct run* run, struct json* json) {
  int status = 2;
  if (acquire_memory(run)) {
    assemble(run);
    solve(run);
    look_at_solution(run);
    gather_times(run);
    write_json(json, run);
    if (run->mesh.rank == 0 && !json_is_stdout(json)) print_result(run);
    status = solution_is_right(run) ? 0 : 1;
  }
  release_memory(run);
  return status;
}

static bool make_mesh(int imbalance, struct mesh* mesh) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return mesh_create(kProgram.name, options.elements, imbalance, rank, ranks, mesh);
}

static int run_with(int imbalance, struct json* json) {
  struct run run = {.imbalance = imbalance};
  return make_mesh(imbalance, &run.mesh) ? run_on_mesh(&run, json) : 2;
}

// Runs the program with each imbalance in turn, `repeat` times, so that a change of the machine's
// speed affects all imbalances. Ends at the first failure. Returns the exit status.
static int run_several(struct json* json) {
  int status = 0;
  json_begin(json, "runs", '[');
  for (int i = 0; i < options.repeat * options.imbalances.count && status == 0; ++i) {
    json_begin(json, NULL, '{');
    status = run_with(options.imbalances.values[i % options.imbalances.count], json);
    json_end(json, '}');
  }
  json_end(json, ']');
  return status;
}

// Returns whether the mesh can be divided with every imbalance. The program checks this before it
// writes output.
static bool can_be_divided(void) {
  struct mesh mesh;
  for (int i = 0; i < options.imbalances.count; ++i) {
    if (!make_mesh(options.imbalances.values[i], &mesh)) return false;
  }
  return true;
}

static int run(void) {
  struct json json;
  if (!can_be_divided()) return 2;
  if (!json_open(&json, "finite_elements", options.json_file)) return 2;
  const bool single = options.repeat == 1 && options.imbalances.count == 1;
  const int status = single ? run_with(options.imbalances.values[0], &json) : run_several(&json);
  return json_close(&json, "finite_elements") ? status : 1;
}

int main(int argc, char** argv) { return program_main(&kProgram, argc, argv, run); }
