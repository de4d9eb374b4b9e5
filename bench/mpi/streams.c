// SPDX-License-Identifier: BSD-3-Clause
// The throughput of memory: copies by a growing number of ranks of an MPI job.
//
// The program measures four kinds of copies, each by size and by 1, 2, 4, ... all ranks at the same
// time. The rate is the sum over the ranks:
//   private   memcpy between buffers of the rank (64 KB fits the cache, 8 MB does not fit L2)
//   shared    memcpy between buffers of MPI_Win_allocate_shared: the source was written by one
//             neighbour, the destination is read by another. This is a message without a protocol
//   readv     process_vm_readv from the neighbour, by chunk size
//   scratch   the copy as a third rank does it: process_vm_readv of a chunk of up to 128 KB into
//             memory of its own, then process_vm_writev
// No message of the other programs can be faster than these rates. Manyhands' default table of
// chunk sizes is based on them. No rank helps with these copies, since no MPI call moves the bytes.
// Options, with their defaults in parentheses:
//   --sizes LIST (64K,8M)   --chunks LIST (16K,64K,128K,512K,4M)
//   --batches N  number of batches (7)   --batch-ms T  length of a batch in ms (4)
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "measure.h"

struct options {
  struct sizes sizes;
  struct sizes chunks;
  int batches;
  double batch_ms;
};

struct neighbour {
  long pid;
  uint64_t from;
  uint64_t to;
};

struct copier {
  size_t bytes;
  size_t chunk;
  char* from;
  char* to;
  char* scratch;
  struct neighbour other;
  int refused;
};

static void copy_memcpy(struct copier* c) {
  memcpy(c->to, c->from, c->bytes);
  __asm__ volatile("" : : "r"(c->to) : "memory");
}

static int move_remote(struct copier* c, void* local, uint64_t remote, size_t bytes, int write) {
  struct iovec mine = {local, bytes}, theirs = {(void*)(uintptr_t)remote, bytes};
  const ssize_t moved = write ? process_vm_writev((pid_t)c->other.pid, &mine, 1, &theirs, 1, 0)
                              : process_vm_readv((pid_t)c->other.pid, &mine, 1, &theirs, 1, 0);
  if (moved == (ssize_t)bytes) return 1;
  c->refused = 1;
  return 0;
}

static void copy_readv(struct copier* c) {
  for (size_t at = 0; at < c->bytes; at += c->chunk) {
    const size_t n = c->bytes - at < c->chunk ? c->bytes - at : c->chunk;
    if (!move_remote(c, c->to + at, c->other.from + at, n, 0)) return;
  }
}

static void copy_scratch(struct copier* c) {
  for (size_t at = 0; at < c->bytes; at += c->chunk) {
    const size_t n = c->bytes - at < c->chunk ? c->bytes - at : c->chunk;
    if (!move_remote(c, c->scratch, c->other.from + at, n, 0)) return;
    if (!move_remote(c, c->scratch, c->other.to + at, n, 1)) return;
  }
}

static void print_rates(const char* way, const struct copier* c, int working, const double* rates,
                        int batches) {
  printf("{\"kind\": \"stream\", \"way\": \"%s\", \"bytes\": %zu, ", way, c->bytes);
  if (c->chunk > 0) printf("\"chunk\": %zu, ", c->chunk);
  printf("\"ranks\": %d, ", working);
  print_values("gb_per_s", rates, batches);
  printf("}\n");
  fflush(stdout);
}

// Collective over MPI_COMM_WORLD. Measures one way to copy. The first `working` ranks copy at the
// same time; the other ranks wait in MPI.
static void measure(const char* way, void (*copy)(struct copier*), struct copier* c, int working,
                    const struct options* o, int rank) {
  double* rates = malloc((size_t)o->batches * sizeof(double));
  if (rates == NULL) fail("out of memory");
  int calls = 1, agreed, refused;
  copy(c);
  double start = now_ns();
  copy(c);
  calls = (int)(o->batch_ms * 1e6 / (now_ns() - start + 1)) + 1;
  MPI_Allreduce(&calls, &agreed, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&c->refused, &refused, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  for (int b = 0; b < o->batches && !refused; b++) {
    double mine = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank < working) {
      start = now_ns();
      for (int i = 0; i < agreed; i++) copy(c);
      mine = (double)c->bytes * agreed / (now_ns() - start);
    }
    MPI_Reduce(&mine, &rates[b], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  }
  if (rank == 0 && !refused) print_rates(way, c, working, rates, o->batches);
  if (rank == 0 && refused) {
    fprintf(stderr, "bench: process_vm_readv is refused here; no %s numbers\n", way);
  }
  free(rates);
}

static void each_count(const char* way, void (*copy)(struct copier*), struct copier* c,
                       const struct options* o, int rank, int ranks) {
  for (int working = 1; working < ranks; working *= 2) measure(way, copy, c, working, o, rank);
  measure(way, copy, c, ranks, o, rank);
}

// Measures the way `shared`. Each rank copies from the next rank's part of a shared-memory window
// into its own part.
static void shared_way(size_t bytes, const struct options* o, int rank, int ranks) {
  struct copier c = {.bytes = bytes};
  MPI_Win window;
  MPI_Comm node;
  MPI_Aint length;
  int unit, node_ranks;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &node_ranks);
  if (node_ranks == ranks) {
    MPI_Win_allocate_shared((MPI_Aint)bytes, 1, MPI_INFO_NULL, node, &c.to, &window);
    memset(c.to, rank, bytes);
    MPI_Win_shared_query(window, (rank + 1) % ranks, &length, &unit, &c.from);
    MPI_Barrier(node);
    each_count("shared", copy_memcpy, &c, o, rank, ranks);
    MPI_Win_free(&window);
  }
  MPI_Comm_free(&node);
}

static void private_ways(size_t bytes, const struct options* o, int rank, int ranks) {
  struct copier c = {.bytes = bytes};
  c.from = buffer_new(bytes, 1);
  c.to = buffer_new(bytes, 2);
  c.scratch = buffer_new(4 << 20, 3);
  each_count("private", copy_memcpy, &c, o, rank, ranks);

  struct neighbour me = {getpid(), (uint64_t)(uintptr_t)c.from, (uint64_t)(uintptr_t)c.to};
  MPI_Sendrecv(&me, (int)sizeof me, MPI_BYTE, (rank + ranks - 1) % ranks, 1, &c.other,
               (int)sizeof me, MPI_BYTE, (rank + 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < o->chunks.count; i++) {
    c.chunk = o->chunks.bytes[i];
    if (c.chunk > bytes || c.chunk > 4 << 20) continue;
    each_count("readv", copy_readv, &c, o, rank, ranks);
    if (c.chunk <= 128 << 10) each_count("scratch", copy_scratch, &c, o, rank, ranks);
  }
  buffer_free(c.from);
  buffer_free(c.to);
  buffer_free(c.scratch);
}

static struct options parse(int argc, char** argv) {
  struct options o = {.batches = 7, .batch_ms = 4};
  o.sizes = parse_sizes("64K,8M");
  o.chunks = parse_sizes("16K,64K,128K,512K,4M");
  const struct option_to options[] = {{"sizes", kSizes, &o.sizes},
                                      {"chunks", kSizes, &o.chunks},
                                      {"batches", kNumber, &o.batches},
                                      {"batch-ms", kReal, &o.batch_ms},
                                      {0}};
  parse_options("streams", argc, argv, options);
  if (o.batches < 1) fail("--batches must be at least 1");
  return o;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options o = parse(argc, argv);
  print_config("streams", argc, argv);
  for (int i = 0; i < o.sizes.count; i++) {
    private_ways(o.sizes.bytes[i], &o, rank, ranks);
    shared_way(o.sizes.bytes[i], &o, rank, ranks);
  }
  MPI_Finalize();
  return 0;
}
