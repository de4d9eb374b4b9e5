// SPDX-License-Identifier: BSD-3-Clause
// A triangular loop nest divided over ranks: the smallest program with unbalanced ranks.
//
// Row i of N takes i + 1 steps of work. Each of the P ranks has N/P consecutive rows of the outer
// loop. Therefore rank r has less work than rank r + 1, and all ranks wait for the last rank in a
// barrier. The outer loop is shared. A step multiplies the result of the previous step by a factor,
// modulo a prime, so no compiler can shorten a row. The check computes the result of a row by a
// power of that factor. All numbers are integers, so the result is the same for any number of ranks
// and threads and any schedule.
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "json.h"
#include "loops.h"
#include "mix.h"
#include "options.h"
#include "series.h"

static const char kUsage[] =
    "usage: triangular [options]\n"
    "\n"
    "Row i of N takes i + 1 steps; every rank has N/P consecutive rows, then all meet in a "
    "barrier.\n"
    "\n"
    "  --rows N       rows of all ranks together (default 2500)\n"
    "  --time-us T    choose the rows so that the longest rank takes about T microseconds\n"
    "  --balanced     every row takes the mean number of steps: all ranks have the same to do\n"
    "  --chunk C      rows that are handed out at a time (default 8)\n"
    "  --repeat N     measured repetitions (default 20)\n"
    "  --warmup N     repetitions before those (default 3)\n"
    "  --reference N  repetitions without a directive, which give the ideal time (default 10, 0: "
    "none)\n"
    "  --json FILE    all times (- for standard output)\n"
    "  --help         this text\n";

enum { MAX_ROWS = 1 << 24 };

static struct {
  int rows, chunk;
  double time_us;
  bool balanced;
  struct timing_options timing;
  const char* json_file;
} options = {.chunk = 8, .timing = {.repeat = 20, .warmup = 3, .reference = 10}};

static const struct option_row kOptions[] = {
    {"rows", OPTION_WHOLE, &options.rows, 1, MAX_ROWS},
    {"time-us", OPTION_REAL, &options.time_us, 1, 1e7},
    {"balanced", OPTION_FLAG, &options.balanced, 0, 0},
    {"chunk", OPTION_WHOLE, &options.chunk, 1, MAX_ROWS},
    {"repeat", OPTION_WHOLE, &options.timing.repeat, 1, 1000000},
    {"warmup", OPTION_WHOLE, &options.timing.warmup, 0, 1000000},
    {"reference", OPTION_WHOLE, &options.timing.reference, 0, 1000000},
    {"json", OPTION_NAME, &options.json_file, 0, 0},
    {NULL, OPTION_FLAG, NULL, 0, 0},
};

static const struct program kProgram = {"triangular", kUsage, kOptions};

// --- the measured loop

static const uint64_t kPrime = 0x7FFFFFFF;  // 2^31 - 1
static const uint64_t kFactor = 48271;

// Does the work of a row: computes state = state * kFactor mod kPrime, `steps` times. 2^31 is 1
// modulo the prime, so a step adds the product's upper bits to its lower 31 bits. The state stays
// below 2^32 and is reduced at the end.
static uint64_t walk(uint64_t state, int steps) {
  for (int j = 0; j < steps; ++j) {
    const uint64_t product = state * kFactor;
    state = (product & kPrime) + (product >> 31);
  }
  return state % kPrime;
}

// Returns the result of walk(), for the check, by a formula: state * kFactor^steps mod kPrime, by
// repeated squaring.
static uint64_t jump(uint64_t state, int steps) {
  uint64_t factor = kFactor;
  for (int left = steps; left > 0; left >>= 1) {
    if (left & 1) state = state * factor % kPrime;
    factor = factor * factor % kPrime;
  }
  return state;
}

static uint64_t first_state(int i) { return mix64((uint64_t)i) % kPrime; }

// A rank's part of the work: rows [first, last) of the outer loop, handed out in chunks of `chunk`
// rows.
struct part {
  int rows, first, last, chunk;
  bool balanced;
};

static int steps_of_row(const struct part* part, int i) {
  return part->balanced ? (part->rows + 1) / 2 : i + 1;
}

static uint64_t row_result(const struct part* part, int i) {
  return walk(first_state(i), steps_of_row(part, i));
}

static uint64_t sum_of_rows(const void* work) {
  const struct part* part = work;
  uint64_t sum = 0;
  SHARED_FOR(schedule(dynamic, part->chunk) reduction(+ : sum))
  for (int i = part->first; i < part->last; ++i) sum += row_result(part, i);
  return sum;
}

// Computes the same sum as sum_of_rows(), by a loop without the directive that shares it.
static uint64_t plain_sum_of_rows(const void* work) {
  const struct part* part = work;
  uint64_t sum = 0;
  for (int i = part->first; i < part->last; ++i) sum += row_result(part, i);
  return sum;
}

static uint64_t expected_sum(const struct part* part) {
  uint64_t sum = 0;
  for (int i = part->first; i < part->last; ++i) {
    sum += jump(first_state(i), steps_of_row(part, i));
  }
  return sum;
}

// --- choosing the number of rows

static volatile uint64_t sink = 1;  // keeps the compiler from removing the calibration

static double walk_s(int steps) {
  const double start = now_s();
  sink = walk(sink, steps);
  return now_s() - start;
}

// Collective. Measures a step of walk() on all ranks at the same time. Returns the seconds of the
// slowest rank on all of them, so that they choose the same number of rows.
static double seconds_of_step(void) {
  const int tries = 7;
  int steps = 1 << 16;
  MPI_Barrier(MPI_COMM_WORLD);
  while (walk_s(steps) < 1e-3 && steps < 1 << 28) steps *= 2;
  double best = walk_s(steps);
  for (int i = 0; i < tries; ++i) best = fmin(best, walk_s(steps));
  double step = best / steps;
  MPI_Allreduce(MPI_IN_PLACE, &step, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return step;
}

// Returns the number N of rows of all P ranks with which the last rank takes `steps` steps. It
// takes N^2 (2P - 1) / (2 P^2) steps; with --balanced, each rank takes N^2 / (2P) steps.
static double rows_for_steps(double steps, int ranks) {
  const double p = ranks;
  return sqrt(steps * 2.0 * p * p / (options.balanced ? p : 2.0 * p - 1.0));
}

// Collective. Returns the number of rows with which the last rank's loop takes --time-us, or 0 if
// the number exceeds MAX_ROWS.
static int rows_for_time(int ranks) {
  const double rows = rows_for_steps(1e-6 * options.time_us / seconds_of_step(), ranks);
  const double in_each = fmax(1.0, round(rows / ranks));
  return in_each * ranks > MAX_ROWS ? 0 : (int)in_each * ranks;
}

static bool choose_rows(int rank, int ranks) {
  const char* fault = NULL;
  if (options.time_us > 0.0 && options.rows > 0) {
    fault = "--rows and --time-us exclude each other: give one of them";
  } else if (options.time_us > 0.0) {
    options.rows = rows_for_time(ranks);
    if (options.rows == 0) fault = "--time-us: would need more than 2^24 rows: use less time";
  } else if (options.rows == 0) {
    options.rows = 2500;
  }
  if (fault == NULL && options.rows < ranks) {
    fault = "--rows: fewer rows than ranks: use more rows or fewer ranks";
  }
  if (fault != NULL && rank == 0) fprintf(stderr, "triangular: %s\n", fault);
  return fault == NULL;
}

static struct part part_of(int rank, int ranks) {
  const long rows = options.rows;
  return (struct part){.rows = options.rows,
                       .first = (int)(rows * rank / ranks),
                       .last = (int)(rows * (rank + 1) / ranks),
                       .chunk = options.chunk,
                       .balanced = options.balanced};
}

// --- check and output of results

static bool result_is_right(const struct part* part, const struct timing* timing, int rank) {
  int right = timing->steady && timing->result == expected_sum(part);
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!right && rank == 0) {
    fprintf(stderr, "triangular: the result is WRONG: it differs from the formula\n");
  }
  return right != 0;
}

static void write_json(struct json* json, int ranks, uint64_t checksum,
                       const struct timing* timing) {
  json_text(json, "program", "triangular");
  json_text(json, "variant", LOOPS_VARIANT);
  json_whole(json, "ranks", ranks);
  json_whole(json, "threads", loops_threads());
  json_whole(json, "rows", options.rows);
  json_whole(json, "chunk", options.chunk);
  json_flag(json, "balanced", options.balanced);
  json_whole(json, "warmup", options.timing.warmup);
  json_hash(json, "checksum", checksum);
  timing_json(timing, json);
}

static void print_result(int ranks, uint64_t checksum, const struct timing* timing) {
  double* rows = calloc((size_t)ranks, sizeof *rows);
  if (rows == NULL) return;
  for (int r = 0; r < ranks; ++r) rows[r] = part_of(r, ranks).last - part_of(r, ranks).first;
  printf("triangular (%s): %d ranks, %d threads, %d rows, chunk %d; checksum %016llx\n",
         LOOPS_VARIANT, ranks, loops_threads(), options.rows, options.chunk,
         (unsigned long long)checksum);
  timing_print(timing, "rows", rows);
  free(rows);
}

static int measure(const struct part* part, int rank, int ranks, struct json* json) {
  struct timing timing = {0};
  if (!timing_run(&options.timing, plain_sum_of_rows, sum_of_rows, part, &timing)) {
    if (rank == 0) fprintf(stderr, "triangular: not enough memory: use a smaller --repeat\n");
    timing_free(&timing);
    return 2;
  }
  uint64_t checksum = timing.result;
  MPI_Allreduce(MPI_IN_PLACE, &checksum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  const bool right = result_is_right(part, &timing, rank);
  write_json(json, ranks, checksum, &timing);
  if (rank == 0 && !json_is_stdout(json)) print_result(ranks, checksum, &timing);
  timing_free(&timing);
  return right ? 0 : 1;
}

static int run(void) {
  int rank = 0, ranks = 0;
  struct json json;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (!choose_rows(rank, ranks)) return 2;
  if (!json_open(&json, "triangular", options.json_file)) return 2;
  const struct part part = part_of(rank, ranks);
  const int status = measure(&part, rank, ranks, &json);
  return json_close(&json, "triangular") ? status : 1;
}

int main(int argc, char** argv) { return program_main(&kProgram, argc, argv, run); }
