// SPDX-License-Identifier: BSD-3-Clause
// Runs trials and writes their results. See trials.h.
#include "trials.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "loops.h"
#include "mix.h"
#include "series.h"

// The measurements of a rank. All members are doubles, so that rank 0 can gather them by one
// MPI_Gather.
struct rank_times {
  double work, loops_s;
};

enum { TIMES_OF_RANK = sizeof(struct rank_times) / sizeof(double) };

// A trial (a run with one imbalance) and, on rank 0, the times of all ranks.
struct outcome {
  const char* program;
  const struct trials* trials;
  struct trial trial;
  int rank, ranks;
  double total_s;          // from the first rank's start to the last rank's end
  struct rank_times* all;  // by rank; filled on rank 0 only
};

bool all_agree(bool ok) {
  int word = ok;
  MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return word != 0;
}

uint64_t hash_of(double value, uint64_t place) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return mix64(bits ^ mix64(place));
}

// --- sums over ranks, on rank 0

struct overview {
  double work_mean, work_most, loops_mean, loops_longest;
};

static double larger(double a, double b) { return a > b ? a : b; }

static struct overview overview_of(const struct outcome* outcome) {
  struct overview found = {0};
  for (int rank = 0; rank < outcome->ranks; ++rank) {
    const struct rank_times* times = &outcome->all[rank];
    found.work_mean += times->work / outcome->ranks;
    found.work_most = larger(found.work_most, times->work);
    found.loops_mean += times->loops_s / outcome->ranks;
    found.loops_longest = larger(found.loops_longest, times->loops_s);
  }
  return found;
}

static double ideal_s(const struct outcome* outcome) {
  const struct overview sums = overview_of(outcome);
  return outcome->total_s - (sums.loops_longest - sums.loops_mean);
}

// Returns by how many percent the largest work of a rank exceeds the mean over ranks. This may
// differ from --imbalance, since a rank's work is a whole number of layers or elements.
static double reached_imbalance(const struct outcome* outcome) {
  const struct overview sums = overview_of(outcome);
  return 100.0 * (sums.work_most / sums.work_mean - 1.0);
}

// --- output of results

static void write_problem(struct json* json, const struct outcome* outcome) {
  double elements[AXES];
  for (int axis = 0; axis < AXES; ++axis) elements[axis] = outcome->trials->elements[axis];
  json_text(json, "program", outcome->program);
  json_text(json, "variant", LOOPS_VARIANT);
  json_whole(json, "ranks", outcome->ranks);
  json_whole(json, "threads", loops_threads());
  json_reals(json, "elements", elements, AXES);
  json_whole(json, "imbalance", outcome->trial.imbalance);
  json_real(json, "reached_imbalance", reached_imbalance(outcome));
}

static void write_rank(struct json* json, const struct outcome* outcome, int rank) {
  json_begin(json, NULL, '{');
  json_whole(json, "rank", rank);
  json_real(json, "work", outcome->all[rank].work);
  json_real(json, "loops_s", outcome->all[rank].loops_s);
  json_end(json, '}');
}

static void write_json(struct json* json, const struct outcome* outcome) {
  if (json->file == NULL) return;
  write_problem(json, outcome);
  json_whole(json, "steps", outcome->trial.steps);
  json_real(json, "error", outcome->trial.error);
  json_hash(json, "hash", outcome->trial.hash);
  json_real(json, "total_s", outcome->total_s);
  json_real(json, "ideal_s", ideal_s(outcome));
  json_begin(json, "times", '[');
  for (int rank = 0; rank < outcome->ranks; ++rank) write_rank(json, outcome, rank);
  json_end(json, ']');
}

static void print_outcome(const struct outcome* outcome) {
  const int* elements = outcome->trials->elements;
  printf("%s (%s): %d ranks, %d threads, %d x %d x %d elements, imbalance %.0f %%\n",
         outcome->program, LOOPS_VARIANT, outcome->ranks, loops_threads(), elements[X], elements[Y],
         elements[Z], reached_imbalance(outcome));
  printf("%d steps: error %.2e, hash %016llx\n", outcome->trial.steps, outcome->trial.error,
         (unsigned long long)outcome->trial.hash);
  printf("  rank          work  loops ms\n");
  for (int rank = 0; rank < outcome->ranks; ++rank) {
    printf("  %4d  %12.0f  %8.1f\n", rank, outcome->all[rank].work,
           1e3 * outcome->all[rank].loops_s);
  }
  printf("wall: %.1f ms; without help, %.1f ms would be ideal\n", 1e3 * outcome->total_s,
         1e3 * ideal_s(outcome));
}

static bool is_right(const struct outcome* outcome) {
  const struct trial* trial = &outcome->trial;
  if (trial->error <= trial->bound) return true;  // false for a NaN, too
  if (outcome->rank == 0) {
    fprintf(stderr, "%s: the result is WRONG: its error is %.1e (allowed %.1e)\n", outcome->program,
            trial->error, trial->bound);
  }
  return false;
}

// --- one trial, and all trials

static void gather(struct outcome* outcome) {
  const struct trial* trial = &outcome->trial;
  const struct rank_times mine = {trial->work, trial->loops_s};
  double bounds[2] = {-trial->start, trial->end};
  MPI_Gather(&mine, TIMES_OF_RANK, MPI_DOUBLE, outcome->all, TIMES_OF_RANK, MPI_DOUBLE, 0,
             MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  outcome->total_s = bounds[0] + bounds[1];
}

static int run_trial(struct outcome* outcome, trial_function run, struct json* json) {
  if (!run(&outcome->trial)) {
    if (outcome->rank == 0) {
      fprintf(stderr, "%s: not enough memory: use fewer elements\n", outcome->program);
    }
    return 2;
  }
  gather(outcome);
  write_json(json, outcome);
  if (outcome->rank == 0 && !json_is_stdout(json)) print_outcome(outcome);
  return is_right(outcome) ? 0 : 1;
}

static int run_with(struct outcome outcome, int imbalance, trial_function run, struct json* json) {
  outcome.trial.imbalance = imbalance;
  MPI_Comm_rank(MPI_COMM_WORLD, &outcome.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &outcome.ranks);
  outcome.all = calloc((size_t)outcome.ranks, sizeof *outcome.all);
  const int status = all_agree(outcome.all != NULL) ? run_trial(&outcome, run, json) : 2;
  free(outcome.all);
  return status;
}

// Runs a trial with each imbalance in turn, and all of them `repeat` times. Ends at the first
// failure. Returns the exit status.
static int run_several(struct outcome outcome, trial_function run, struct json* json) {
  const struct wholes* imbalances = &outcome.trials->imbalances;
  int status = 0;
  json_begin(json, "runs", '[');
  for (int i = 0; i < outcome.trials->repeat * imbalances->count && status == 0; ++i) {
    json_begin(json, NULL, '{');
    status = run_with(outcome, imbalances->values[i % imbalances->count], run, json);
    json_end(json, '}');
  }
  json_end(json, ']');
  return status;
}

int trials_run(const char* program, const struct trials* trials, trial_function run) {
  struct json json;
  const struct outcome outcome = {.program = program, .trials = trials};
  const bool single = trials->repeat == 1 && trials->imbalances.count == 1;
  if (!json_open(&json, program, trials->json_file)) return 2;
  const int status = single ? run_with(outcome, trials->imbalances.values[0], run, &json)
                            : run_several(outcome, run, &json);
  return json_close(&json, program) ? status : 1;
}

bool trials_mesh(const char* program, const struct trials* trials, int imbalance,
                 struct mesh* mesh) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return mesh_create(program, trials->elements, imbalance, rank, ranks, mesh);
}
