// SPDX-License-Identifier: BSD-3-Clause
// Messages of noncontiguous data between two ranks, beside the speed that memory allows.
//
// PingPong: rank 0 sends, rank 1 answers with the same type; a time is half of a round trip.
// bench/layout/types.h has the types and the hand-written loops.
//   --ways LIST    pack (strided at the sender, contiguous at the receiver), pack-unpack (strided at
//                  both), and two ways that are compared with each other: bundle (the same messages
//                  as pack-unpack) and separate (MPI_Pack, contiguous message, MPI_Unpack)
//   --planes LIST  bytes of X-Z planes    --z LIST   their depths in doubles
//   --boxes LIST   elements a side of boxes, all of whose sides are sent instead of planes
//   --apart        the two ranks are the first of each half of all ranks; the launcher has put the
//                  halves on two nodes. The other ranks sleep.
//   --helpers      the other ranks wait in MPI_Barrier
//   --batches N, --batch-ms T   number of batches, length of each in ms; default 15, 8
// For comparison, each result has the time that the hand-written loop takes for one message: on one
// core, and on both cores, each of which works on a message. It has the same times for memcpy of
// the packed bytes. The program checks every byte that arrives and every gap, before and after
// measuring. Several launches can take turns, batch by batch (turns.h).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../layout/types.h"
#include "measure.h"
#include "turns.h"

enum way { kPack, kPackUnpack, kBundle, kSeparate, kWays };
static const char* const kWayNames[] = {"pack", "pack-unpack", "bundle", "separate"};

struct options {
  struct sizes planes, depths, boxes;
  int ways[kWays];
  int batches;
  double batch_ms;
  int apart;
  int helpers;
  MPI_Comm pair;  // the communicator of the two ranks; MPI_COMM_NULL at other ranks
};

// The state of one of the two ranks that exchange messages.
struct side {
  const Case* c;
  enum way way;
  MPI_Comm pair;
  int peer;
  int first;     // 1: this rank sends first
  char* out;     // send buffer
  char* in;      // receive buffer
  size_t room;   // bytes of each of these two buffers
  char* packed;  // buffer of MPI_Pack and MPI_Unpack in kSeparate
};

enum { kWarmUps = 2, kMaxCalls = 4000, kTag = 7, kLoopBatches = 7, kGap = 7 };

static int strided(const struct side* s) { return s->way != kPack; }

static void send_message(const struct side* s) {
  const Case* c = s->c;
  if (s->way != kSeparate) {
    MPI_Send(s->out, c->count, c->type, s->peer, kTag, s->pair);
    return;
  }
  int position = 0;
  MPI_Pack(s->out, c->count, c->type, s->packed, (int)c->packed, &position, s->pair);
  MPI_Send(s->packed, position, MPI_PACKED, s->peer, kTag, s->pair);
}

static void receive_message(const struct side* s) {
  const Case* c = s->c;
  int position = 0;
  switch (s->way) {
    case kPack:
      MPI_Recv(s->in, (int)(c->packed / (size_t)c->bytes), c->element, s->peer, kTag, s->pair,
               MPI_STATUS_IGNORE);
      return;
    case kSeparate:
      MPI_Recv(s->packed, (int)c->packed, MPI_PACKED, s->peer, kTag, s->pair, MPI_STATUS_IGNORE);
      MPI_Unpack(s->packed, (int)c->packed, &position, s->in, c->count, c->type, s->pair);
      return;
    default:
      MPI_Recv(s->in, c->count, c->type, s->peer, kTag, s->pair, MPI_STATUS_IGNORE);
  }
}

static void one_call(const struct side* s) {
  if (s->first) send_message(s);
  receive_message(s);
  if (!s->first) send_message(s);
}

static void by_hand(const struct side* s, const char* from, char* to) {
  if (strided(s)) {
    s->c->copy(s->c, to, from);
  } else {
    s->c->move(s->c, (char*)from, to, 1);  // packing only reads
  }
}

static void fill(char* bytes, size_t count, int seed) {
  for (size_t i = 0; i < count; i++) {
    bytes[i] = (char)((i * 131 + (i >> 12) * 17 + (size_t)seed) & 0xff);
  }
}

// Exchanges messages with known bytes. Checks every received byte, and that no gap between them was
// written. Ends the MPI job if one is wrong.
static void verify(const struct side* s, int seed) {
  char* expected = buffer_new(s->room, kGap);
  memset(s->in, kGap, s->room);
  fill(s->out, s->room, seed + !s->first);
  by_hand(s, s->out, expected);  // the bytes that the peer will send
  fill(s->out, s->room, seed + s->first);
  one_call(s);
  if (memcmp(s->in, expected, s->room) != 0) fail("wrong byte received, or a gap written");
  buffer_free(expected);
}

// Returns the number of round trips that fill a batch of `batch_ms`. The rank that sends first
// computes the number and sends it to its peer.
static int calibrate(const struct side* s, double batch_ms) {
  int calls = 0;
  const double start = now_ns();
  for (int i = 0; i < kWarmUps; i++) one_call(s);
  const double once = (now_ns() - start) / kWarmUps;
  if (s->first) {
    calls = (int)(batch_ms * 1e6 / once) + 1;
    if (calls > kMaxCalls) calls = kMaxCalls;
    MPI_Send(&calls, 1, MPI_INT, s->peer, kTag, s->pair);
  } else {
    MPI_Recv(&calls, 1, MPI_INT, s->peer, kTag, s->pair, MPI_STATUS_IGNORE);
  }
  return calls;
}

// Measures the hand-written loop without messages. Collective over `team`: every rank runs the loop
// on its own buffers at the same time. Rank 0 gets in `ns`, for each batch, the time for one
// message at the rate of all cores together.
static void loop_times(const struct side* s, MPI_Comm team, double* ns) {
  int rank, ranks, agreed;
  MPI_Comm_rank(team, &rank);
  MPI_Comm_size(team, &ranks);
  by_hand(s, s->out, s->in);
  const double once = now_ns();
  by_hand(s, s->out, s->in);
  int calls = (int)(2e6 / (now_ns() - once + 1)) + 1;
  MPI_Allreduce(&calls, &agreed, 1, MPI_INT, MPI_MAX, team);
  for (int b = 0; b < kLoopBatches; b++) {
    MPI_Barrier(team);
    const double start = now_ns();
    for (int i = 0; i < agreed; i++) by_hand(s, s->out, s->in);
    const double rate = agreed / (now_ns() - start);
    double sum = 0;
    MPI_Reduce(&rate, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, team);
    ns[b] = 1 / sum;
  }
}

struct beside {
  double loop[2][kLoopBatches];    // ns for a message on one core, on both
  double memcpy[2][kLoopBatches];  // rates in GB/s
};

static void measure_beside(const struct side* s, struct beside* b) {
  if (s->first) loop_times(s, MPI_COMM_SELF, b->loop[0]);
  MPI_Barrier(s->pair);
  loop_times(s, s->pair, b->loop[1]);
  if (s->first) memcpy_rate(MPI_COMM_SELF, s->c->packed, kLoopBatches, b->memcpy[0]);
  MPI_Barrier(s->pair);
  memcpy_rate(s->pair, s->c->packed, kLoopBatches, b->memcpy[1]);
}

static void print_result(const struct side* s, const struct samples* time,
                         const struct beside* beside) {
  static const char* const kLoops[] = {"loop_ns", "loops_ns"};
  static const char* const kCopies[] = {"memcpy_ns", "memcpys_ns"};
  const char* kind = s->way >= kBundle ? "bundle" : kWayNames[s->way];
  printf("{\"kind\": \"noncontiguous\", \"way\": \"%s\", \"type\": \"%s\", \"bytes\": %zu, ", kind,
         s->c->name, s->c->packed);
  print_samples(time);
  for (int cores = 0; cores < 2; cores++) {
    double copies[kLoopBatches];
    for (int i = 0; i < kLoopBatches; i++) {
      copies[i] = (double)s->c->packed / beside->memcpy[cores][i];
    }
    printf(", ");
    print_values(kLoops[cores], beside->loop[cores], kLoopBatches);
    printf(", ");
    print_values(kCopies[cores], copies, kLoopBatches);
  }
  printf("}\n");
  fflush(stdout);
}

static void measure(const struct side* s, const struct options* o) {
  double* time = malloc(kMaxCalls * sizeof(double));
  if (time == NULL) fail("out of memory");
  struct samples sent = samples_new(o->batches, 1);
  struct beside beside;
  const int calls = calibrate(s, o->batch_ms);
  for (int b = 0; b < o->batches; b++) {
    turns_next();
    one_call(s);  // warms the caches after the turn of another launch
    for (int c = 0; c < calls; c++) {
      const double start = now_ns();
      one_call(s);
      time[c] = (now_ns() - start) / 2;
    }
    samples_store(&sent, b, time, calls);
  }
  measure_beside(s, &beside);
  if (s->first) print_result(s, &sent, &beside);
  samples_free(&sent);
  free(time);
}

static void run(const Case* c, void* context) {
  const struct options* o = context;
  int rank;
  MPI_Comm_rank(o->pair, &rank);
  struct side s = {.c = c, .pair = o->pair, .peer = !rank, .first = rank == 0, .room = c->memory};
  s.out = buffer_new(s.room, 1);
  s.in = buffer_new(s.room, 2);
  s.packed = buffer_new(c->packed, 3);
  for (int way = 0; way < kWays; way++) {
    if (!o->ways[way]) continue;
    s.way = (enum way)way;
    verify(&s, 3);
    measure(&s, o);
    verify(&s, 77);
  }
  buffer_free(s.out);
  buffer_free(s.in);
  buffer_free(s.packed);
}

static void parse_ways(const char* text, int* ways) {
  for (const char* at = text; at != NULL; at = strchr(at, ',')) {
    if (*at == ',') at++;
    int way = 0;
    while (way < kWays && (strncmp(at, kWayNames[way], strcspn(at, ",")) != 0 ||
                           strlen(kWayNames[way]) != strcspn(at, ","))) {
      way++;
    }
    if (way == kWays) fail("--ways are of pack, pack-unpack, bundle, separate");
    ways[way] = 1;
  }
}

static struct options parse(int argc, char** argv) {
  struct options o = {.batches = 15, .batch_ms = 8};
  const char* ways = "pack,pack-unpack";
  o.planes = parse_sizes("32M,1M");
  o.depths = parse_sizes("1,8,64,256,4096");
  const struct option_to options[] = {{"ways", kText, &ways},
                                      {"planes", kSizes, &o.planes},
                                      {"z", kSizes, &o.depths},
                                      {"boxes", kSizes, &o.boxes},
                                      {"batches", kNumber, &o.batches},
                                      {"batch-ms", kReal, &o.batch_ms},
                                      {"apart", kFlag, &o.apart},
                                      {"helpers", kFlag, &o.helpers},
                                      {0}};
  parse_options("noncontiguous", argc, argv, options);
  parse_ways(ways, o.ways);
  if (o.boxes.count != 0) o.planes.count = 0;
  return o;
}

// Sleeps until the two measuring ranks are done, that is, until `request` is complete. Tests
// `request` every 5 ms; in between this rank takes no core from them.
static void sleep_through(MPI_Request* request) {
  const struct timespec nap = {.tv_nsec = 5000000};
  for (int over = 0; !over; MPI_Test(request, &over, MPI_STATUS_IGNORE)) nanosleep(&nap, NULL);
}

static void measure_all(struct options* o) {
  for (int i = 0; i < o->planes.count; i++) {
    for (int k = 0; k < o->depths.count; k++) {
      plane_case(o->planes.bytes[i], (long)o->depths.bytes[k], run, o);
    }
  }
  for (int i = 0; i < o->boxes.count; i++) box_cases((int)o->boxes.bytes[i], run, o);
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  struct options o = parse(argc, argv);
  if (!o.apart && !o.helpers && ranks != 2) {
    fail("needs two ranks; with --apart or --helpers more");
  }
  if (o.batches < 1) fail("--batches must be at least 1");
  print_config("noncontiguous", argc, argv);
  turns_begin(rank);
  const int paired = rank == 0 || rank == (o.apart ? ranks / 2 : 1);
  MPI_Comm_split(MPI_COMM_WORLD, paired ? 0 : MPI_UNDEFINED, rank, &o.pair);
  if (paired) measure_all(&o);
  if (o.helpers) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Request everyone;
  MPI_Ibarrier(MPI_COMM_WORLD, &everyone);
  sleep_through(&everyone);
  turns_end();
  MPI_Finalize();
  return 0;
}
