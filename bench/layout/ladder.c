// SPDX-License-Identifier: BSD-3-Clause
//
// Measures packing and unpacking on one core: by the layout engine, by a hand-written loop for each
// type, and by MPI_Pack/MPI_Unpack, in turn in a process of one rank. The script ladder.py compiles
// and runs the program under each MPI. Arguments: seconds for each type and direction; part of the
// names of the measured types; bytes of the last-level cache (0: not known). The program checks the
// bytes of the engine and of MPI once against those of the loop. Each line of the output is a JSON
// object with the nanoseconds of a call that packs or unpacks all data: the median and the least of
// the rounds.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi/engine/engine.h"
#include "types.h"

enum { ROUNDS = 61 };

static double seconds_each = 0.2;
static const char* wanted = "";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// ---- measuring a type --------------------------------------------------------------------------

enum { HAND, ENGINE, LIBRARY, COPY, ARMS };
static const char* const arm_names[ARMS] = {"hand", "engine", "mpi", "memcpy"};

typedef struct {
  const Case* c;
  mh_layout* layout;
  char *memory, *packed, *other;
  size_t bytes;
} Bench;

static void once(const Bench* b, int arm, int packing) {
  const Case* c = b->c;
  int position = 0;
  switch (arm) {
    case HAND:
      c->move(c, b->memory, b->packed, packing);
      return;
    case ENGINE:
      if (packing) {
        mh_layout_pack(b->layout, (size_t)c->count, b->memory, 0, b->bytes, b->packed);
      } else {
        mh_layout_unpack(b->layout, (size_t)c->count, b->memory, 0, b->bytes, b->packed);
      }
      return;
    case LIBRARY:
      if (packing) {
        MPI_Pack(b->memory, c->count, c->type, b->packed, (int)b->bytes, &position, MPI_COMM_SELF);
      } else {
        MPI_Unpack(b->packed, (int)b->bytes, &position, b->memory, c->count, c->type,
                   MPI_COMM_SELF);
      }
      return;
    default:
      memcpy(b->other, b->packed, b->bytes);
  }
}

static void check(const Bench* b, int arm) {
  for (size_t i = 0; i < b->c->memory; ++i) b->memory[i] = (char)(i * 2654435761u >> 11);
  memset(b->packed, 0, b->bytes);
  once(b, HAND, 1);
  char* expected = malloc(b->bytes);
  memcpy(expected, b->packed, b->bytes);
  memset(b->packed, 1, b->bytes);
  once(b, arm, 1);
  const int packs = memcmp(expected, b->packed, b->bytes) == 0;
  memset(b->memory, 7, b->c->memory);
  once(b, arm, 0);
  memset(b->packed, 1, b->bytes);
  once(b, HAND, 1);
  if (!packs || memcmp(expected, b->packed, b->bytes) != 0) {
    fprintf(stderr, "%s: %s moves wrong bytes\n", b->c->name, arm_names[arm]);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  free(expected);
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const Bench* b, int packing) {
  double time[ARMS][ROUNDS];
  int turns[ARMS];
  for (int arm = 0; arm < ARMS; ++arm) {
    once(b, arm, packing);
    const double start = now();
    once(b, arm, packing);
    const double most = seconds_each * 1e9 / ARMS / ROUNDS;
    const double each = most < 2e5 ? most : 2e5;  // short, so that few rounds are interrupted
    turns[arm] = 1 + (int)(each / (now() - start + 1));
  }
  for (int round = 0; round < ROUNDS; ++round) {
    for (int arm = 0; arm < ARMS; ++arm) {
      const double start = now();
      for (int i = 0; i < turns[arm]; ++i) once(b, arm, packing);
      time[arm][round] = (now() - start) / turns[arm];
    }
  }
  printf("{\"type\": \"%s\", \"way\": \"%s\", \"bytes\": %zu, \"blocks\": %zu", b->c->name,
         packing ? "pack" : "unpack", b->bytes, mh_layout_blocks(b->layout) * (size_t)b->c->count);
  for (int arm = 0; arm < ARMS; ++arm) {
    qsort(time[arm], ROUNDS, sizeof(double), ascending);
    printf(", \"%s\": [%.1f, %.1f]", arm_names[arm], time[arm][ROUNDS / 2], time[arm][0]);
  }
  printf("}\n");
  fflush(stdout);
}

static void run(const Case* c, void* context) {
  (void)context;
  if (strstr(c->name, wanted) == NULL) return;
  Bench b = {.c = c, .layout = mh_layout_of(c->type), .bytes = c->packed};
  if (b.layout == NULL) {
    fprintf(stderr, "%s has no layout\n", c->name);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  b.memory = aligned_alloc(4096, (c->memory + 4095) / 4096 * 4096);
  b.packed = aligned_alloc(4096, (b.bytes + 4095) / 4096 * 4096);
  b.other = aligned_alloc(4096, (b.bytes + 4095) / 4096 * 4096);
  memset(b.other, 0, b.bytes);
  check(&b, ENGINE);
  check(&b, LIBRARY);
  measure(&b, 1);
  measure(&b, 0);
  free(b.memory);
  free(b.packed);
  free(b.other);
  mh_layout_close(b.layout);
  mh_layout_forget(c->type);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc > 1) seconds_each = atof(argv[1]);
  if (argc > 2) wanted = argv[2];
  if (mh_engine_open() != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  if (argc > 3) mh_engine_last_cache(strtoull(argv[3], NULL, 10));
  const long depths[5] = {1, 8, 64, 256, 4096};
  for (int i = 0; i < 5; ++i) plane_case(32U << 20, depths[i], run, NULL);
  for (int i = 0; i < 5; ++i) plane_case(1U << 20, depths[i], run, NULL);
  box_cases(64, run, NULL);
  irregular_cases(run, NULL);
  MPI_Finalize();
  return 0;
}
