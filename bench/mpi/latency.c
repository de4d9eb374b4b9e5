// SPDX-License-Identifier: BSD-3-Clause
// Latency (half a round trip) of 8 bytes between ranks 0 and 1, without and with a load by ranks 2
// and 3.
//
// Without load: each batch of 1000 round trips is timed as a whole, so the cost of the clock does
// not show. The median of the batches is good to about 2 ns on a quiet machine. With four or more
// ranks and --load BYTES, ranks 2 and 3 exchange messages of BYTES all the time. A second line
// gives the latency under this load, and thus the cost of helping ranks 2 and 3. With load, the
// program times every call, because the harm shows in the tail (p99).
// Options, with their defaults in parentheses:
//   --batches N (60)   --calls N   round trips in a batch (1000)   --load BYTES (0: without load)
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"

enum { kTag = 3, kStopTag = 4, kWarmUps = 2000 };

struct options {
  int batches;
  int calls;
  size_t load;
};

static void round_trip(int first, long* message) {
  const int peer = first ? 1 : 0;
  if (first) MPI_Send(message, 1, MPI_LONG, peer, kTag, MPI_COMM_WORLD);
  MPI_Recv(message, 1, MPI_LONG, peer, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (!first) MPI_Send(message, 1, MPI_LONG, peer, kTag, MPI_COMM_WORLD);
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void print_result(const struct options* o, size_t load, const struct samples* s,
                         double* each, int ranks) {
  printf(
      "{\"kind\": \"latency\", \"bytes\": 8, \"ranks\": %d, \"load_bytes\": %zu, \"calls\": %d, ",
      ranks, load, o->calls);
  print_samples(s);
  if (load > 0) {
    const int n = o->batches * o->calls;
    qsort(each, (size_t)n, sizeof *each, ascending);
    const double tail[] = {each[n / 2], each[n - 1 - n / 100], each[n - 1 - n / 1000], each[n - 1]};
    printf(", ");
    print_values("p50_p99_p999_max_ns", tail, 4);
  }
  printf("}\n");
  fflush(stdout);
}

static void bare_batch(const struct options* o, int first, double* mean) {
  long message = 1;
  const double start = now_ns();
  for (int c = 0; c < o->calls; c++) round_trip(first, &message);
  *mean = (now_ns() - start) / o->calls / 2;
}

static void timed_batch(const struct options* o, int first, double* each, double* mean) {
  long message = 1;
  double sum = 0;
  for (int c = 0; c < o->calls; c++) {
    const double start = now_ns();
    round_trip(first, &message);
    each[c] = (now_ns() - start) / 2;
    sum += each[c];
  }
  *mean = sum / o->calls;
}

static void pingpong(const struct options* o, int first, size_t load, int ranks) {
  struct samples s = samples_new(o->batches, 0);
  double* each = malloc((size_t)o->batches * (size_t)o->calls * sizeof(double));
  if (each == NULL) fail("out of memory");
  long message = 0;
  const int warm_ups = load > 0 ? kWarmUps / 100 : kWarmUps;
  for (int i = 0; i < warm_ups; i++) round_trip(first, &message);
  for (int b = 0; b < o->batches; b++) {
    if (load == 0) {
      bare_batch(o, first, &s.mean[b]);
    } else {
      timed_batch(o, first, each + (size_t)b * (size_t)o->calls, &s.mean[b]);
    }
  }
  if (first) print_result(o, load, &s, each, ranks);
  samples_free(&s);
  free(each);
}

// The body of ranks 2 and 3, which load the node by exchanging long messages until rank 0 stops
// them. The first byte of a message is 1 if the message is the last.
static void move_megabytes(int rank, size_t load) {
  char* buffer = buffer_new(load, 0);
  const int peer = rank == 2 ? 3 : 2;
  long messages = 0;
  for (int stop = 0; !stop; messages++) {
    if (rank == 2) {
      MPI_Iprobe(0, kStopTag, MPI_COMM_WORLD, &stop, MPI_STATUS_IGNORE);
      buffer[0] = (char)stop;
      MPI_Send(buffer, (int)load, MPI_BYTE, peer, kTag, MPI_COMM_WORLD);
      MPI_Recv(buffer, (int)load, MPI_BYTE, peer, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(buffer, (int)load, MPI_BYTE, peer, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      stop = buffer[0];
      MPI_Send(buffer, (int)load, MPI_BYTE, peer, kTag, MPI_COMM_WORLD);
    }
  }
  if (rank == 2) MPI_Recv(NULL, 0, MPI_BYTE, 0, kStopTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  buffer_free(buffer);
}

static struct options parse(int argc, char** argv) {
  struct options o = {60, 1000, 0};
  const struct option_to options[] = {{"batches", kNumber, &o.batches},
                                      {"calls", kNumber, &o.calls},
                                      {"load", kBytes, &o.load},
                                      {0}};
  parse_options("latency", argc, argv, options);
  if (o.batches < 1 || o.calls < 1) fail("--batches and --calls must be at least 1");
  return o;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options o = parse(argc, argv);
  if (ranks < 2 || (o.load > 0 && ranks < 4)) fail("needs 2 ranks, with --load 4");
  print_config("latency", argc, argv);
  if (rank < 2) pingpong(&o, rank == 0, 0, ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  if (o.load > 0) {
    if (rank < 2) pingpong(&o, rank == 0, o.load, ranks);
    if (rank == 0) MPI_Send(NULL, 0, MPI_BYTE, 2, kStopTag, MPI_COMM_WORLD);
    if (rank == 2 || rank == 3) move_megabytes(rank, o.load);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
