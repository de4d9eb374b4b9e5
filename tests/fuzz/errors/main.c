// SPDX-License-Identifier: BSD-3-Clause
//
// A differential fuzzer for programs that continue after errors.
//
// usage: mpiexec -n N errors [--seed S] [--rounds R] [--first-round F] [--steps K]
//                            [--only KIND] [--timeout SECONDS] [--trace FILE] [--verbose 1]
//
// Each rank writes its trace to FILE.RANK. On success rank 0 prints a line with a hash over all
// traces. If a round does not finish in time, each rank prints its place (round, step, call), and
// the run ends with 86.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

Options options = {.seed = 1, .rounds = 20, .steps = 24, .only = -1, .timeout_s = 30};
Here here;
static const char* const step_names[] = {STEPS(AS_NAME)};

int rank_in(CommKind comm, int rank) {
  if (comm == REVERSED) return here.ranks - 1 - rank;
  return comm == ALONE ? 0 : rank;
}

// ---- options -----------------------------------------------------------------------------------

static int kind_named(const char* name) {
  for (int i = 0; i < STEP_COUNT; ++i) {
    if (strcmp(step_names[i], name) == 0) return i;
  }
  return -1;
}

static bool set_option(const char* word, const char* value) {
  long long number = strtoll(value, NULL, 0);
  if (strcmp(word, "--seed") == 0) {
    options.seed = (uint64_t)number;
  } else if (strcmp(word, "--rounds") == 0) {
    options.rounds = (int)number;
  } else if (strcmp(word, "--first-round") == 0) {
    options.first_round = (int)number;
  } else if (strcmp(word, "--steps") == 0) {
    options.steps = (int)number;
  } else if (strcmp(word, "--timeout") == 0) {
    options.timeout_s = (int)number;
  } else if (strcmp(word, "--trace") == 0) {
    options.trace = value;
  } else if (strcmp(word, "--verbose") == 0) {
    options.verbose = number != 0;
  } else if (strcmp(word, "--only") == 0) {
    options.only = kind_named(value);
    return options.only >= 0;
  } else {
    return false;
  }
  return true;
}

// ---- communicators -----------------------------------------------------------------------------

static void note_error(MPI_Comm* comm, int* code, ...) {
  bool seen = here.blocking || here.kind == STEP_BAD_CALL || here.kind == STEP_COLLECTIVE;
  if (seen || !left_out("handlers of completions"))
    see("handler: %s on %s", class_of(*code), *comm == here.comm[HANDLED] ? "its own" : "another");
}

static void comms_make(void) {
  MPI_Comm_dup(MPI_COMM_WORLD, &here.comm[BASE]);
  MPI_Comm_dup(MPI_COMM_WORLD, &here.comm[HANDLED]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -here.rank, &here.comm[REVERSED]);
  MPI_Comm_dup(MPI_COMM_WORLD, &here.comm[RACES]);
  MPI_Comm_dup(MPI_COMM_SELF, &here.comm[ALONE]);
  for (int i = 0; i < COMMS; ++i) MPI_Comm_set_errhandler(here.comm[i], MPI_ERRORS_RETURN);
  MPI_Comm_create_errhandler(note_error, &here.noting);
  MPI_Comm_set_errhandler(here.comm[HANDLED], here.noting);
}

static void comms_free(void) {
  for (int i = 0; i < COMMS; ++i) MPI_Comm_free(&here.comm[i]);
  MPI_Errhandler_free(&here.noting);
}

// ---- rounds ------------------------------------------------------------------------------------

static void step_complete(Rng* rng) {
  (void)rng;
  complete_some(6);
}

static StepKind pick_step(Rng* rng) {
  static const struct {
    StepKind kind;
    int weight;
  } all[] = {{STEP_BURST, 30},     {STEP_BAD_CALL, 14},    {STEP_COLLECTIVE, 14}, {STEP_NOBODY, 6},
             {STEP_PERSISTENT, 8}, {STEP_CANCEL, 4},       {STEP_FREED, 4},       {STEP_RACE, 5},
             {STEP_PROBED, 3},     {STEP_COMMUNICATOR, 4}, {STEP_COMPLETE, 8}};
  int way = rng_range(rng, 0, 99);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
    if (way < all[i].weight) return all[i].kind;
    way -= all[i].weight;
  }
  return STEP_BURST;
}

static void play_step(StepKind kind, Rng* rng) {
  static void (*const plays[])(Rng*) = {
      [STEP_BURST] = step_burst,           [STEP_BAD_CALL] = step_bad_call,
      [STEP_COLLECTIVE] = step_collective, [STEP_NOBODY] = step_nobody,
      [STEP_PERSISTENT] = step_persistent, [STEP_CANCEL] = step_cancel,
      [STEP_FREED] = step_freed,           [STEP_RACE] = step_race,
      [STEP_PROBED] = step_probed,         [STEP_COMMUNICATOR] = step_communicator,
      [STEP_COMPLETE] = step_complete};
  here.kind = kind;
  plays[kind](rng);
}

static void play_round(int round) {
  uint64_t seed = mix2(options.seed, (uint64_t)round);
  here.round = round;
  here.local = (Rng){mix2(seed, 1000 + (uint64_t)here.rank)};
  Rng rng = {mix2(seed, 7)};
  for (here.step = 0; here.step < options.steps; ++here.step) {
    StepKind kind = pick_step(&rng);
    Rng own = {rng_next(&rng)};
    if (options.only >= 0 && kind != STEP_COMPLETE) kind = (StepKind)options.only;
    play_step(kind, &own);
    // The fuzzer completes pending requests between the steps, and traces these completions with
    // the kind COMPLETE. Equal lines of an error handler in such a completion count once in
    // test_errors.py.
    here.kind = STEP_COMPLETE;
    if (rng_chance(&here.local, 15)) complete_some(6);
    doing("");
  }
  here.kind = STEP_COMPLETE;
  complete_all();
  Rng last = {rng_next(&rng)};
  step_clean(&last);
}

static void report(void) {
  uint64_t mine = mix2(trace_hash(), (uint64_t)here.rank), all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (here.rank != 0) return;
  printf("errors: ok seed %llu ranks %d rounds %d from %d hash %016llx\n",
         (unsigned long long)options.seed, here.ranks, options.rounds, options.first_round,
         (unsigned long long)all);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && set_option(argv[i], argv[i + 1])) continue;
    fprintf(stderr, "errors: %s: unknown option or value (see the head of main.c)\n", argv[i]);
    return 2;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &here.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &here.ranks);
  comms_make();
  trace_open();
  watch_start();
  for (int i = 0; i < options.rounds; ++i) {
    play_round(options.first_round + i);
    watch_progress();
  }
  report();
  comms_free();
  MPI_Finalize();
  trace_close();
  return 0;
}
