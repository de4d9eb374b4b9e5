// SPDX-License-Identifier: BSD-3-Clause
// A 3-D 7-point stencil with halo exchange of many variables, the communication pattern of
// miniGhost's BSPMA mode: bulk synchronous, one aggregated message for each neighbour and step.
//
// This program does not use Manyhands and needs MPI-3 only. This file has the time loop; grid,
// halo, heat, times and output have their own files. Exit status: 0 done, 1 the result is wrong or
// could not be written, 2 the command line is wrong, an output file cannot be opened, or memory is
// short.
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#include "grid.h"
#include "halo.h"
#include "heat.h"
#include "membench.h"
#include "options.h"
#include "output.h"
#include "times.h"

// The relative error of the sum that heat_check() allows. Rounding errors are far smaller, the
// error of a lost plane is far larger.
static const double kHeatTolerance = 1e-8;

struct run {
  struct options options;
  struct box box;
  struct grid grid;
  struct halo halo;
  struct heat heat;
  struct times times;
  struct membench membench;
  struct output output;
};

static bool all_agree(MPI_Comm comm, bool ok) {
  int word = ok;
  MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_MIN, comm);
  return word != 0;
}

// --- progress of the run on standard error

struct progress {
  bool on, terminal;
  double last;
};

static struct progress progress_start(const struct run* run) {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const enum progress_mode mode = run->options.progress;
  const bool wanted = mode == PROGRESS_ALWAYS || (mode == PROGRESS_AUTO && terminal);
  return (struct progress){.on = wanted && run->box.rank == 0, .terminal = terminal, .last = -1.0};
}

// Shows the progress at most twenty times a second, and after the last step. On a terminal each
// report overwrites the previous report; otherwise each report is a line.
static void progress_show(struct progress* progress, int done, int steps) {
  if (!progress->on) return;
  const double now = MPI_Wtime();
  if (done < steps && now - progress->last < 0.05) return;
  progress->last = now;
  const char* end = !progress->terminal || done == steps ? "\n" : "";
  fprintf(stderr, "%sstencil: step %d/%d%s", progress->terminal ? "\r" : "", done, steps, end);
  fflush(stderr);
}

// --- the loop over time steps

// Makes odd ranks late, for --imbalance PERCENT: they compute PERCENT % of the variables again,
// with the same values.
static void extra_work(const struct options* options, const struct box* box, struct grid* grid) {
  if (box->rank % 2 == 0) return;
  long left = ((long)grid->vars * options->imbalance + 99) / 100;
  while (left > 0) {
    const int count = left < grid->vars ? (int)left : grid->vars;
    grid_average(grid, 0, count);
    left -= count;
  }
}

static void one_step(struct run* run, int step) {
  const int every = run->options.check;
  if (every > 0 && step % every == 0) heat_add_sources(&run->heat, &run->box, &run->grid, step);
  if (every > 0) heat_count_outflow(&run->heat, &run->box, &run->grid);
  halo_exchange(&run->halo, &run->grid);
  grid_average(&run->grid, 0, run->grid.vars);
  extra_work(&run->options, &run->box, &run->grid);
  grid_advance(&run->grid);
  if (every > 0 && (step + 1) % every == 0) heat_check(&run->heat, &run->box, &run->grid);
}

static void one_timed_step(struct run* run, int step) {
  halo_clear_times(&run->halo);
  heat_clear_times(&run->heat);
  const double start = MPI_Wtime();
  one_step(run, step);
  const double total = MPI_Wtime() - start;
  if (step < run->options.warmup) return;
  times_add(&run->times, total, run->halo.pack_seconds,
            run->halo.mpi_seconds + run->heat.mpi_seconds);
}

static void time_loop(struct run* run) {
  struct progress progress = progress_start(run);
  for (int step = 0; step < run->options.steps; ++step) {
    if (step == run->options.warmup) MPI_Barrier(run->box.comm);
    one_timed_step(run, step);
    progress_show(&progress, step + 1, run->options.steps);
  }
  times_estimate_wait(&run->times, run->box.comm);
}

// --- memory, checks and results, before and after the time steps

static bool messages_are_countable(const struct run* run) {
  for (int axis = 0; axis < AXES; ++axis) {
    const int* n = run->box.cells;
    const long plane = (long)n[AXIS_X] * n[AXIS_Y] * n[AXIS_Z] / n[axis];
    if (plane <= INT_MAX / run->options.vars) continue;
    if (run->box.rank == 0) {
      fprintf(stderr,
              "stencil: a message of %d variables would have more than 2^31-1 values: "
              "use fewer variables or cells\n",
              run->options.vars);
    }
    return false;
  }
  return true;
}

static bool acquire_memory(struct run* run) {
  const struct options* o = &run->options;
  const bool ok = grid_create(&run->box, o->vars, &run->grid) &&
                  halo_create(o, &run->box, &run->grid, &run->halo) &&
                  heat_create(o->vars, o->seed, &run->heat) && times_create(o->steps, &run->times);
  if (all_agree(run->box.comm, ok)) return true;
  if (run->box.rank == 0) {
    fprintf(stderr,
            "stencil: not enough memory: the grid alone needs %zu MiB on every rank: "
            "use fewer variables or cells\n",
            grid_bytes(&run->box, o->vars) >> 20);
  }
  return false;
}

static void release_memory(struct run* run) {
  times_free(&run->times);
  heat_free(&run->heat);
  halo_free(&run->halo);
  grid_free(&run->grid);
}

static bool measure_memcpy(struct run* run) {
  if (run->options.memcpy_mib == 0) return true;
  if (membench_run(run->box.comm, run->options.memcpy_mib, &run->membench)) return true;
  if (run->box.rank == 0) fprintf(stderr, "stencil: not enough memory for --memcpy\n");
  return false;
}

static bool heat_is_balanced(const struct run* run) {
  if (run->heat.worst_error <= kHeatTolerance) return true;
  if (run->box.rank == 0) {
    fprintf(
        stderr,
        "stencil: the grid is WRONG: its sum differs from the heat put in by %.1e (allowed %.0e)\n",
        run->heat.worst_error, kHeatTolerance);
  }
  return false;
}

static void print_result(const struct run* run, uint64_t hash) {
  const struct options* o = &run->options;
  if (run->box.rank != 0 || run->output.json == stdout || run->output.checksum == stdout) return;
  printf("stencil: %d ranks, %d variables, %d steps: %.3f s; hash %016llx\n", run->box.ranks,
         o->vars, o->steps, run->times.total, (unsigned long long)hash);
}

static bool write_results(struct run* run) {
  const struct results results = {&run->options, &run->box,      &run->grid,           &run->halo,
                                  &run->times,   &run->membench, run->heat.worst_error};
  const uint64_t hash = output_checksum(&run->output, &results);
  output_dump(&run->output, &results);
  output_json(&run->output, &results, hash);
  print_result(run, hash);
  return output_close(&run->box, &run->output);
}

static int run_in_box(struct run* run) {
  if (!messages_are_countable(run)) return 2;
  if (!output_open(&run->options, &run->box, &run->output)) return 2;
  int status = 2;
  if (acquire_memory(run)) {
    heat_start(&run->heat, &run->box, &run->grid);
    time_loop(run);
    const bool measured = measure_memcpy(run);
    const bool right = heat_is_balanced(run);
    status = write_results(run) && measured && right ? 0 : 1;
  }
  release_memory(run);
  return status;
}

static int run_stencil(struct run* run) {
  const bool fits = box_create(&run->options, &run->box);
  const int status = fits ? run_in_box(run) : 2;
  box_free(&run->box);
  return status;
}

int main(int argc, char** argv) {
  struct run run = {0};
  int rank = 0;
  int status = 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  switch (options_parse(argc, argv, rank == 0, &run.options)) {
    case OPTIONS_RUN:
      status = run_stencil(&run);
      break;
    case OPTIONS_HELP:
      if (rank == 0) options_print_usage();
      status = 0;
      break;
    case OPTIONS_WRONG:
      break;
  }
  MPI_Finalize();
  return status;
}
