// SPDX-License-Identifier: BSD-3-Clause
// Runs repetitions, takes time stamps and evaluates them. See series.h.
#include "series.h"

#include <mpi.h>
#include <stdlib.h>
#include <time.h>

enum { DOUBLES_OF_STAMP = 3 };

// Returns the time in seconds by CLOCK_MONOTONIC, which is the same on all ranks of a node. The
// clock of MPI_Wtime may differ between ranks.
double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

// --- measuring a series of repetitions

static bool series_create(struct series* series, int count) {
  int rank = 0;
  *series = (struct series){.count = count};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &series->ranks);
  if (count == 0) return true;
  const size_t stamps = (size_t)count * (rank == 0 ? (size_t)series->ranks : 1);
  series->mine = calloc((size_t)count, sizeof *series->mine);
  series->all = calloc(stamps, sizeof *series->all);
  return series->mine != NULL && series->all != NULL;
}

static void series_free(struct series* series) {
  free(series->mine);
  free(series->all);
  series->mine = NULL;
  series->all = NULL;
}

static uint64_t repeat_once(loop_function loop, const void* work, struct stamp* stamp) {
  stamp->start = now_s();
  const uint64_t result = loop(work);
  stamp->loop_end = now_s();
  MPI_Barrier(MPI_COMM_WORLD);
  stamp->end = now_s();
  return result;
}

static void series_run(struct series* series, int warmup, loop_function loop, const void* work,
                       struct timing* timing) {
  struct stamp unused;
  if (series->count == 0) return;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = -warmup; i < series->count; ++i) {
    const uint64_t result = repeat_once(loop, work, i < 0 ? &unused : &series->mine[i]);
    timing->steady = timing->steady && result == timing->result;
  }
  const int doubles = DOUBLES_OF_STAMP * series->count;
  MPI_Gather(series->mine, doubles, MPI_DOUBLE, series->all, doubles, MPI_DOUBLE, 0,
             MPI_COMM_WORLD);
}

static bool all_agree(bool ok) {
  int word = ok;
  MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return word != 0;
}

bool timing_run(const struct timing_options* options, loop_function plain, loop_function loop,
                const void* work, struct timing* timing) {
  const bool first = series_create(&timing->reference, options->reference);
  const bool second = series_create(&timing->measured, options->repeat);
  if (!all_agree(first && second)) return false;
  timing->steady = true;
  timing->result = plain(work);
  series_run(&timing->reference, options->warmup, plain, work, timing);
  series_run(&timing->measured, options->warmup, loop, work, timing);
  return true;
}

void timing_free(struct timing* timing) {
  series_free(&timing->reference);
  series_free(&timing->measured);
}

// --- evaluation of the stamps; rank 0 only

static const struct stamp* stamp_of(const struct series* series, int rank, int i) {
  return &series->all[(size_t)rank * (size_t)series->count + (size_t)i];
}

static double loop_of(const struct series* series, int rank, int i) {
  const struct stamp* stamp = stamp_of(series, rank, i);
  return stamp->loop_end - stamp->start;
}

static double wall_of(const struct series* series, int i) {
  double start = stamp_of(series, 0, i)->start, end = stamp_of(series, 0, i)->end;
  for (int rank = 1; rank < series->ranks; ++rank) {
    const struct stamp* stamp = stamp_of(series, rank, i);
    if (stamp->start < start) start = stamp->start;
    if (stamp->end > end) end = stamp->end;
  }
  return end - start;
}

// The medians of a series over its repetitions in seconds, and the wall time of each repetition.
struct medians {
  double wall, mean_loop;
  double* loop;   // by rank
  double* walls;  // by repetition
};

static bool medians_create(struct medians* medians, const struct series* series) {
  medians->loop = calloc((size_t)series->ranks, sizeof(double));
  medians->walls = calloc((size_t)series->count + 1, sizeof(double));
  return medians->loop != NULL && medians->walls != NULL;
}

static void medians_free(struct medians* medians) {
  free(medians->loop);
  free(medians->walls);
}

static double mean_loop_of(const struct series* series, int i) {
  double sum = 0.0;
  for (int rank = 0; rank < series->ranks; ++rank) sum += loop_of(series, rank, i);
  return sum / series->ranks;
}

// Computes all medians of a series. While it computes them, the array `walls` of `medians` is
// scratch memory for the times of one kind; at the end it gets the wall times.
static void medians_fill(struct medians* medians, const struct series* series) {
  double* scratch = medians->walls;
  for (int rank = 0; rank < series->ranks; ++rank) {
    for (int i = 0; i < series->count; ++i) scratch[i] = loop_of(series, rank, i);
    medians->loop[rank] = median(scratch, series->count);
  }
  for (int i = 0; i < series->count; ++i) scratch[i] = mean_loop_of(series, i);
  medians->mean_loop = median(scratch, series->count);
  for (int i = 0; i < series->count; ++i) scratch[i] = wall_of(series, i);
  medians->wall = median(scratch, series->count);
  for (int i = 0; i < series->count; ++i) scratch[i] = wall_of(series, i);
}

static void print_walls(const struct timing* timing, const struct medians* measured,
                        const struct medians* reference) {
  printf("wall %.3f ms, median of %d", 1e3 * measured->wall, timing->measured.count);
  if (timing->reference.count > 0) {
    printf("; without a directive %.3f ms, ideal %.3f ms", 1e3 * reference->wall,
           1e3 * reference->mean_loop);
  }
  printf("\n");
}

static void print_table(const struct timing* timing, const char* unit, const double* amounts) {
  struct medians measured = {0}, reference = {0};
  const bool ok = medians_create(&measured, &timing->measured) &&
                  medians_create(&reference, &timing->reference);
  if (ok) {
    medians_fill(&measured, &timing->measured);
    if (timing->reference.count > 0) medians_fill(&reference, &timing->reference);
    printf("  rank  %12s    loop ms\n", unit);
    for (int rank = 0; rank < timing->measured.ranks; ++rank) {
      printf("  %4d  %12.0f  %9.3f\n", rank, amounts[rank], 1e3 * measured.loop[rank]);
    }
    print_walls(timing, &measured, &reference);
  }
  medians_free(&measured);
  medians_free(&reference);
}

void timing_print(const struct timing* timing, const char* unit, const double* amounts) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) print_table(timing, unit, amounts);
}

static void json_of_repetitions(const struct series* series, double* row, struct json* json) {
  json_begin(json, "repetition_loop_s", '[');
  for (int i = 0; i < series->count; ++i) {
    for (int rank = 0; rank < series->ranks; ++rank) row[rank] = loop_of(series, rank, i);
    json_row(json, row, series->ranks);
  }
  json_end(json, ']');
}

// Writes the times of a series as a JSON member `key`. Returns the median over the repetitions of
// the ranks' mean loop time, negative if the series has no repetitions.
static double json_of_series(const struct series* series, const char* key, struct json* json) {
  struct medians medians = {.mean_loop = -1.0};
  if (series->count > 0 && medians_create(&medians, series)) {
    medians_fill(&medians, series);
    json_begin(json, key, '{');
    json_whole(json, "repeat", series->count);
    json_real(json, "wall_s", medians.wall);
    json_real(json, "mean_loop_s", medians.mean_loop);
    json_reals(json, "loop_s", medians.loop, series->ranks);
    json_reals(json, "repetition_wall_s", medians.walls, series->count);
    json_of_repetitions(series, medians.loop, json);
    json_end(json, '}');
  }
  medians_free(&medians);
  return medians.mean_loop;
}

void timing_json(const struct timing* timing, struct json* json) {
  if (json->file == NULL) return;
  json_flag(json, "steady", timing->steady);
  json_of_series(&timing->measured, "measured", json);
  const double ideal = json_of_series(&timing->reference, "reference", json);
  if (ideal >= 0.0) json_real(json, "ideal_s", ideal);
}
