// SPDX-License-Identifier: BSD-3-Clause
// Blocking collectives over MPI_COMM_WORLD: the time of a call on the slowest rank.
//
// Before each call, each rank writes every cache line of the data that it sends, as programs do.
// Data that did not change would stay in the caches of the ranks that read it. The time of the
// writes alone is subtracted. Calls of a batch follow each other without a barrier, as in a solver
// that reduces a residual, so a root may run ahead. The program checks the results of reduce,
// allreduce, allgather and allgatherv. With two ranks it also measures `limit`, an exchange of as
// many bytes without any library: each rank copies its peer's buffer by one memcpy (mapped.h).
// Options, with their defaults in parentheses:
//   --sizes LIST   bytes a rank contributes (8)   --only NAME   one collective
//   --batches N    number of batches (15)         --batch-ms T  length of a batch in ms (6)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mapped.h"
#include "measure.h"

struct call {
  size_t bytes;
  double* in;
  double* out;
  int rank, ranks;
  int* counts;          // by rank, for the calls that take counts: all equal
  int* places;          // by rank: displacements
  struct mapped limit;  // for two ranks only
};

static void barrier(const struct call* c) {
  (void)c;
  MPI_Barrier(MPI_COMM_WORLD);
}
static void bcast(const struct call* c) {
  MPI_Bcast(c->in, (int)(c->bytes / 8), MPI_DOUBLE, 0, MPI_COMM_WORLD);
}
static void reduce(const struct call* c) {
  MPI_Reduce(c->in, c->out, (int)(c->bytes / 8), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void allreduce(const struct call* c) {
  MPI_Allreduce(c->in, c->out, (int)(c->bytes / 8), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void allgather(const struct call* c) {
  const int n = (int)(c->bytes / 8);
  MPI_Allgather(c->in, n, MPI_DOUBLE, c->out, n, MPI_DOUBLE, MPI_COMM_WORLD);
}
static void alltoall(const struct call* c) {
  const int n = (int)(c->bytes / 8);
  MPI_Alltoall(c->in, n, MPI_DOUBLE, c->out, n, MPI_DOUBLE, MPI_COMM_WORLD);
}
static void gather(const struct call* c) {
  const int n = (int)(c->bytes / 8);
  MPI_Gather(c->in, n, MPI_DOUBLE, c->out, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}
static void scatter(const struct call* c) {
  const int n = (int)(c->bytes / 8);
  MPI_Scatter(c->in, n, MPI_DOUBLE, c->out, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void reduce_scatter(const struct call* c) {
  const int n = (int)(c->bytes / 8);
  MPI_Reduce_scatter_block(c->in, c->out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void scan(const struct call* c) {
  MPI_Scan(c->in, c->out, (int)(c->bytes / 8), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void gatherv(const struct call* c) {
  MPI_Gatherv(c->in, c->counts[0], MPI_DOUBLE, c->out, c->counts, c->places, MPI_DOUBLE, 0,
              MPI_COMM_WORLD);
}
static void scatterv(const struct call* c) {
  MPI_Scatterv(c->in, c->counts, c->places, MPI_DOUBLE, c->out, c->counts[0], MPI_DOUBLE, 0,
               MPI_COMM_WORLD);
}
static void allgatherv(const struct call* c) {
  MPI_Allgatherv(c->in, c->counts[0], MPI_DOUBLE, c->out, c->counts, c->places, MPI_DOUBLE,
                 MPI_COMM_WORLD);
}
static void alltoallv(const struct call* c) {
  MPI_Alltoallv(c->in, c->counts, c->places, MPI_DOUBLE, c->out, c->counts, c->places, MPI_DOUBLE,
                MPI_COMM_WORLD);
}
static void limit(const struct call* c) {
  mapped_exchange((struct mapped*)&c->limit, c->out, 0, c->bytes);
}

// Special values of `blocks`, the number of blocks of `bytes` that a rank writes before each call.
// kRootOnly: one block, at rank 0 only. kOneForEach: one for each rank of the communicator.
enum { kRootOnly = -1, kOneForEach = 0 };
static const struct {
  const char* name;
  void (*run)(const struct call*);
  int blocks;
} kCollectives[] = {
    {"barrier", barrier, kRootOnly},
    {"bcast", bcast, kRootOnly},
    {"reduce", reduce, 1},
    {"allreduce", allreduce, 1},
    {"allgather", allgather, 1},
    {"alltoall", alltoall, kOneForEach},
    {"gather", gather, 1},
    {"scatter", scatter, kOneForEach},
    {"reduce_scatter", reduce_scatter, kOneForEach},
    {"scan", scan, 1},
    {"gatherv", gatherv, 1},
    {"scatterv", scatterv, kOneForEach},
    {"allgatherv", allgatherv, 1},
    {"alltoallv", alltoallv, kOneForEach},
    {"limit", limit, 1},
};
enum { kCount = sizeof kCollectives / sizeof kCollectives[0], kWarmUps = 20, kMaxCalls = 20000 };

// Returns the buffer from which the collective number `which` sends this rank's data.
static double* sent_data(int which, const struct call* c) {
  return kCollectives[which].run == limit ? c->limit.own : c->in;
}
static size_t sent_bytes(int which, const struct call* c) {
  const int blocks = kCollectives[which].blocks;
  if (blocks == kRootOnly) return c->rank == 0 ? c->bytes : 0;
  return blocks == kOneForEach ? c->bytes * (size_t)c->ranks : c->bytes;
}
static void write_data(double* data, size_t bytes, double value) {
  enum { kLine = 64 };
  for (size_t at = 0; at < bytes; at += kLine) ((volatile double*)data)[at / 8] = value;
}
// Writes the data that this rank sends, `calls` times, and calls the collective after each write if
// `with_calls` is 1. Returns the time in ns of all writes and calls on this rank.
static double time_calls(int which, const struct call* c, int calls, int with_calls) {
  double* data = sent_data(which, c);
  const size_t bytes = sent_bytes(which, c);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_ns();
  for (int i = 0; i < calls; i++) {
    write_data(data, bytes, c->rank + 1);
    if (with_calls) kCollectives[which].run(c);
  }
  return now_ns() - start;
}

struct options {
  struct sizes sizes;
  const char* only;
  int batches;
  double batch_ms;
};

static int calibrate(int which, const struct call* c, double batch_ms) {
  time_calls(which, c, kWarmUps, 1);
  const double took = time_calls(which, c, kWarmUps, 1);
  int calls = (int)(batch_ms * 1e6 * kWarmUps / (took + 1)) + 1;
  if (calls > kMaxCalls) calls = kMaxCalls;
  MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return calls;
}

static void check(const char* name, const struct call* c, int rank) {
  const double sum = c->ranks * (c->ranks + 1) / 2.0;
  const size_t last = c->bytes / 8 - 1;
  const int reduces = strcmp(name, "allreduce") == 0 || (strcmp(name, "reduce") == 0 && rank == 0);
  if (reduces && (c->out[0] != sum || c->out[last] != sum)) fail("a reduction gave a wrong sum");
  if (strncmp(name, "allgather", strlen("allgather")) == 0) {
    for (int r = 0; r < c->ranks; r++) {
      if (c->out[(size_t)r * (last + 1) + last] != r + 1) fail("allgather gave a wrong value");
    }
  }
}

static void measure(int which, const struct call* c, const struct options* o, int rank) {
  const char* name = kCollectives[which].name;
  struct samples s = samples_new(o->batches, 0);
  const size_t items = c->bytes / 8 * (size_t)c->ranks;
  for (size_t i = 0; i < items; i++) c->in[i] = rank + 1;
  const int calls = calibrate(which, c, o->batch_ms);
  for (int b = 0; b < o->batches; b++) {
    const double writes = time_calls(which, c, calls, 0);
    const double mine = (time_calls(which, c, calls, 1) - writes) / calls;
    MPI_Allreduce(&mine, &s.mean[b], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  check(name, c, rank);
  if (rank == 0) {
    printf("{\"kind\": \"collective\", \"name\": \"%s\", \"bytes\": %zu, \"ranks\": %d, ", name,
           which == 0 ? 0 : c->bytes, c->ranks);
    printf("\"calls\": %d, ", calls);
    print_samples(&s);
    printf("}\n");
    fflush(stdout);
  }
  samples_free(&s);
}

static struct options parse(int argc, char** argv) {
  struct options o = {.batches = 15, .batch_ms = 6};
  o.sizes = parse_sizes("8");
  const struct option_to options[] = {{"sizes", kSizes, &o.sizes},
                                      {"only", kText, &o.only},
                                      {"batches", kNumber, &o.batches},
                                      {"batch-ms", kReal, &o.batch_ms},
                                      {0}};
  parse_options("collectives", argc, argv, options);
  if (o.batches < 1) fail("--batches must be at least 1");
  return o;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options o = parse(argc, argv);
  print_config("collectives", argc, argv);
  for (int i = 0; i < o.sizes.count; i++) {
    struct call c = {.bytes = o.sizes.bytes[i] / 8 * 8, .rank = rank, .ranks = ranks};
    if (c.bytes == 0) fail("--sizes must be at least 8");
    const size_t room = c.bytes * (size_t)ranks;
    c.in = buffer_new(room, 0);
    c.out = buffer_new(room, 0);
    c.counts = malloc(sizeof(int) * (size_t)ranks);
    c.places = malloc(sizeof(int) * (size_t)ranks);
    for (int r = 0; r < ranks; r++) {
      c.counts[r] = (int)(c.bytes / 8);
      c.places[r] = r * c.counts[r];
    }
    if (ranks == 2) c.limit = mapped_new(MPI_COMM_WORLD, c.bytes);
    for (int which = 0; which < kCount; which++) {
      if (o.only != NULL && strcmp(o.only, kCollectives[which].name) != 0) continue;
      if (which == 0 && i > 0) continue;  // a barrier has no size
      if (kCollectives[which].run == limit && ranks != 2) continue;
      measure(which, &c, &o, rank);
    }
    if (ranks == 2) mapped_free(&c.limit);
    buffer_free(c.in);
    buffer_free(c.out);
    free(c.counts);
    free(c.places);
  }
  MPI_Finalize();
  return 0;
}
