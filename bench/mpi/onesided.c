// SPDX-License-Identifier: BSD-3-Clause
// RMA operations of rank 0 on the window of rank 1. The other ranks wait in a fence during large
// operations, in a barrier during short ones. With --apart the target is the first rank of the
// second half of the ranks, which the launcher has put on a second node.
//
// A large accumulate adds doubles with MPI_SUM, in a window made by MPI_Win_allocate and in one
// made by MPI_Win_create. Its time includes the fence that ends it. A batch of short operations in
// a passive-target epoch has one flush; fetch_and_op is flushed each time, because its caller needs
// the result. In `all to one`, every rank accumulates into rank 0. The program checks the sums.
// Options, with their defaults in parentheses:
//   --sizes LIST   bytes of an accumulate (128K,1M,8M)   --only NAME   one of the operations
//   --batches N    number of batches (15)   --batch-ms T  length of each in ms (6)   --apart
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

struct call {
  MPI_Win win;
  size_t bytes;
  double* own;  // bytes of ones
  int rank, ranks, target;
};

static void accumulate(const struct call* c) {
  const int n = (int)(c->bytes / 8);
  MPI_Accumulate(c->own, n, MPI_DOUBLE, c->target, 0, n, MPI_DOUBLE, MPI_SUM, c->win);
}
static void fenced_accumulate(const struct call* c) {
  if (c->rank == 0) accumulate(c);
  MPI_Win_fence(0, c->win);
}
static void all_to_one(const struct call* c) {
  accumulate(c);
  MPI_Win_fence(0, c->win);
}
static void short_put(const struct call* c) {
  MPI_Put(c->own, 1, MPI_DOUBLE, c->target, 1, 1, MPI_DOUBLE, c->win);
}
static void short_get(const struct call* c) {
  static double got;
  MPI_Get(&got, 1, MPI_DOUBLE, c->target, 1, 1, MPI_DOUBLE, c->win);
}
static void fetch_and_op(const struct call* c) {
  static double got;
  MPI_Fetch_and_op(c->own, &got, MPI_DOUBLE, c->target, 0, MPI_SUM, c->win);
  MPI_Win_flush(c->target, c->win);
}

static const struct kind {
  const char* name;
  void (*run)(const struct call*);
  int large;    // 1: --sizes bytes in a fence epoch; 0: 8 bytes in a passive-target epoch
  int created;  // 1: MPI_Win_create, 0: MPI_Win_allocate
  int adds;     // 1: each call of an origin adds one to the first number of the window
} kKinds[] = {
    {"accumulate", fenced_accumulate, 1, 0, 1},
    {"accumulate, created", fenced_accumulate, 1, 1, 1},
    {"accumulate, all to one", all_to_one, 1, 0, 1},
    {"put", short_put, 0, 0, 0},
    {"get", short_get, 0, 0, 0},
    {"short accumulate", accumulate, 0, 0, 1},
    {"fetch_and_op", fetch_and_op, 0, 0, 1},
    {"put, created", short_put, 0, 1, 0},
    {"fetch_and_op, created", fetch_and_op, 0, 1, 1},
};
enum { kCount = sizeof kKinds / sizeof kKinds[0], kWarmUps = 10, kMaxCalls = 100000 };

struct options {
  struct sizes sizes;
  const char* only;
  int batches;
  double batch_ms;
  int apart;
};

// Collective. Carries out an operation `calls` times. Returns the time in ns of all these
// operations together, which is valid at rank 0.
static double run(const struct kind* kind, const struct call* c, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_ns();
  if (kind->large) {
    for (int i = 0; i < calls; i++) kind->run(c);
    return now_ns() - start;
  }
  if (c->rank == 0) {
    for (int i = 0; i < calls; i++) kind->run(c);
    MPI_Win_flush(c->target, c->win);
  }
  const double spent = now_ns() - start;
  MPI_Barrier(MPI_COMM_WORLD);  // other ranks wait in this barrier while rank 0 measures
  return spent;
}

// Collective. Measures a kind of operation, and prints the result at rank 0. Returns how often the
// operation was carried out, warm-ups included. The caller computes the expected sums from this.
static long measure(const struct kind* kind, const struct call* c, const struct options* o) {
  struct samples s = samples_new(o->batches, 0);
  long total = 2 * kWarmUps;
  run(kind, c, kWarmUps);
  int calls = (int)(o->batch_ms * 1e6 * kWarmUps / (run(kind, c, kWarmUps) + 1)) + 1;
  if (calls > kMaxCalls) calls = kMaxCalls;
  MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int b = 0; b < o->batches; b++) {
    s.mean[b] = run(kind, c, calls) / calls;
    total += calls;
  }
  if (c->rank == 0) {
    printf("{\"kind\": \"onesided\", \"name\": \"%s\", \"bytes\": %zu, ", kind->name, c->bytes);
    printf("\"ranks\": %d, \"calls\": %d, ", c->ranks, calls);
    print_samples(&s);
    printf("}\n");
    fflush(stdout);
  }
  samples_free(&s);
  return total;
}

static void check(const struct kind* kind, const struct call* c, const double* memory, long calls) {
  const double origins = kind->run == all_to_one ? c->ranks : 1;
  const double wanted = kind->adds ? (double)calls * origins : 0;
  if (c->rank == c->target && memory[0] != wanted) fail("a sum is wrong");
}

static void play(const struct kind* kind, size_t bytes, const struct options* o, struct call c) {
  const size_t room = bytes < 16 ? 16 : bytes;
  double* memory = NULL;
  c.bytes = bytes;
  c.target = kind->run == all_to_one ? 0 : o->apart ? c.ranks / 2 : 1;
  c.own = buffer_new(bytes, 0);
  for (size_t i = 0; i < bytes / 8; i++) c.own[i] = 1;
  if (kind->created) {
    memory = buffer_new(room, 0);
    MPI_Win_create(memory, (MPI_Aint)room, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &c.win);
  } else {
    MPI_Win_allocate((MPI_Aint)room, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &c.win);
  }
  memset(memory, 0, room);
  MPI_Barrier(MPI_COMM_WORLD);
  if (kind->large) {
    MPI_Win_fence(0, c.win);
  } else {
    MPI_Win_lock_all(0, c.win);
  }
  const long calls = measure(kind, &c, o);
  if (kind->large) {
    MPI_Win_fence(MPI_MODE_NOSUCCEED, c.win);
  } else {
    MPI_Win_unlock_all(c.win);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  check(kind, &c, memory, calls);
  MPI_Win_free(&c.win);
  if (kind->created) buffer_free(memory);
  buffer_free(c.own);
}

static struct options parse(int argc, char** argv) {
  struct options o = {.batches = 15, .batch_ms = 6};
  o.sizes = parse_sizes("128K,1M,8M");
  const struct option_to options[] = {
      {"sizes", kSizes, &o.sizes},      {"only", kText, &o.only},
      {"batches", kNumber, &o.batches}, {"batch-ms", kReal, &o.batch_ms},
      {"apart", kFlag, &o.apart},       {0}};
  parse_options("onesided", argc, argv, options);
  if (o.batches < 1) fail("--batches must be at least 1");
  return o;
}

int main(int argc, char** argv) {
  struct call c = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &c.ranks);
  const struct options o = parse(argc, argv);
  print_config("onesided", argc, argv);
  if (c.ranks < 2) fail("needs two ranks");
  for (int which = 0; which < kCount; which++) {
    const struct kind* kind = &kKinds[which];
    if (o.only != NULL && strcmp(o.only, kind->name) != 0) continue;
    for (int i = 0; i < (kind->large ? o.sizes.count : 1); i++) {
      const size_t bytes = kind->large ? o.sizes.bytes[i] / 8 * 8 : 8;
      if (bytes == 0) fail("--sizes must be at least 8");
      play(kind, bytes, &o, c);
    }
  }
  MPI_Finalize();
  return 0;
}
