// SPDX-License-Identifier: BSD-3-Clause
// PingPong between rank 0 and a partner while all other ranks wait in MPI_Barrier.
//
// The program of CAB-MPI's section V-A (IMB PingPong plus waiting ranks). Prints the one-way time
// for every size: half of a round trip, without the time that either side spent reading its buffer.
// Options, with their defaults in parentheses:
//   --sizes LIST      message sizes, e.g. 8,64K,8M                     (8 to 8M)
//   --mode MODE       blocking | nonblocking (Isend/Irecv + Wait) | test (polls MPI_Test) |
//                     exchange (both directions at once, Waitall; time of one exchange) |
//                     mapped (an exchange without MPI, the limit: see mapped.h)
//   --depth N         exchanges at a time, each with its own buffer; prints the time of one (1)
//   --partner RANK    rank that answers                                (1)
//   --touch           the receiver reads its buffer from low to high; prints that time separately
//   --echo            each rank has one buffer: the partner sends the received bytes back
//   --fill            the sender rewrites its buffer before every message, which the time excludes.
//                     An exchange then lasts from the later end of writing to the later arrival, so
//                     both ranks need one clock
//   --access KEY      info key post_comm_access of the communicator: random, lo-to-hi, hi-to-lo
//   --cold BYTES      total size of the buffers to use in turn, instead of a single buffer
//   --batches N, --batch-ms T   number of batches, length of each in ms (15, 8)
//   --no-limit        do not measure memcpy
// Several launches can take turns, batch by batch (turns.h).
// Precision: about 1 % of the median on pinned, quiet cores. Without --cold, buffers stay in cache
// as far as they fit, as in OSU and IMB; buffers of applications rarely do.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mapped.h"
#include "measure.h"
#include "turns.h"

enum mode { kBlocking, kNonblocking, kTest, kExchange, kMapped };
static const char* const kModeNames[] = {"blocking", "nonblocking", "test", "exchange", "mapped"};

struct options {
  struct sizes sizes;
  enum mode mode;
  int depth;
  int partner;
  int touch;
  int fill;
  int echo;
  const char* access;
  size_t cold;
  int batches;
  double batch_ms;
  int no_limit;
};

// The state of one of the two ranks that exchange messages: its peer, and a pool of send buffers
// and one of receive buffers, which the rank uses in turn.
struct side {
  MPI_Comm comm;
  enum mode mode;
  int depth;
  int peer;
  int first;  // 1: this rank sends first
  int touch;
  int fill;
  int echo;
  size_t bytes;
  size_t stride;
  int slots;  // buffers in each pool; 1 without --cold and --depth
  int slot;   // index of the current buffer
  char* send_pool;
  char* receive_pool;
  struct mapped mapped;  // kMapped: the send pools of both ranks
};

// Round trips with messages of less than kTimedBytes bytes are timed by the batch, since the cost
// of reading the clock for each would show in their times.
enum { kTimedBytes = 4096, kWarmUps = 4, kMaxCalls = 4000, kMaxDepth = 256, kTag = 7 };

static char* next_send(struct side* s) { return s->send_pool + (size_t)s->slot * s->stride; }
static char* next_receive(struct side* s) { return s->receive_pool + (size_t)s->slot * s->stride; }

static void poll(MPI_Request* request) {
  for (int done = 0; !done;) MPI_Test(request, &done, MPI_STATUS_IGNORE);
}

static void send_message(struct side* s, const void* buffer) {
  MPI_Request request;
  if (s->mode == kBlocking) {
    MPI_Send(buffer, (int)s->bytes, MPI_BYTE, s->peer, kTag, s->comm);
    return;
  }
  MPI_Isend(buffer, (int)s->bytes, MPI_BYTE, s->peer, kTag, s->comm, &request);
  if (s->mode == kTest) {
    poll(&request);
  } else {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static void receive_message(struct side* s, void* buffer) {
  MPI_Request request;
  if (s->mode == kBlocking) {
    MPI_Recv(buffer, (int)s->bytes, MPI_BYTE, s->peer, kTag, s->comm, MPI_STATUS_IGNORE);
    return;
  }
  MPI_Irecv(buffer, (int)s->bytes, MPI_BYTE, s->peer, kTag, s->comm, &request);
  if (s->mode == kTest) {
    poll(&request);
  } else {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static int both_ways(enum mode mode) { return mode == kExchange || mode == kMapped; }

// Exchanges `depth` messages in each direction at the same time. Each has its own buffer. The first
// buffers are those at the current index `slot` of the pools; `slot` is unchanged at the end.
static void exchange(struct side* s) {
  if (s->mode == kMapped) {
    mapped_exchange(&s->mapped, next_receive(s), (size_t)s->slot * s->stride, s->bytes);
    return;
  }
  MPI_Request requests[2 * kMaxDepth];
  const int first = s->slot;
  for (int i = 0; i < s->depth; i++) {
    s->slot = (first + i) % s->slots;
    MPI_Request* both = &requests[2 * i];
    MPI_Irecv(next_receive(s), (int)s->bytes, MPI_BYTE, s->peer, kTag, s->comm, &both[0]);
    MPI_Isend(next_send(s), (int)s->bytes, MPI_BYTE, s->peer, kTag, s->comm, &both[1]);
  }
  s->slot = first;
  MPI_Waitall(2 * s->depth, requests, MPI_STATUSES_IGNORE);
}

static double read_received(struct side* s) {
  if (!s->touch) return 0;
  const double start = now_ns();
  touch_low_to_high(next_receive(s), s->bytes);
  return now_ns() - start;
}

static double write_next(struct side* s) {
  if (!s->fill) return 0;
  const double start = now_ns();
  memset(next_send(s), s->slot + 1, s->bytes);
  return now_ns() - start;
}

// The time in ns that a rank spends outside of communication during a call, in reading a received
// buffer and in writing the next one.
struct spent {
  double reading;
  double writing;
};

// Makes a call, the unit that is timed: an exchange, or one message in each direction. Returns this
// rank's time outside of communication.
static struct spent one_call(struct side* s) {
  struct spent spent = {0, 0};
  s->slot = (s->slot + 1) % s->slots;
  if (both_ways(s->mode)) {
    spent.writing = write_next(s);
    exchange(s);
    spent.reading = read_received(s);
    return spent;
  }
  if (s->first) spent.writing = write_next(s);
  if (s->first) send_message(s, next_send(s));
  receive_message(s, next_receive(s));
  spent.reading = read_received(s);
  if (!s->first) spent.writing = write_next(s);
  if (!s->first) send_message(s, next_send(s));
  return spent;
}

static unsigned char pattern(size_t i, int seed) {
  return (unsigned char)((i * 131 + (i >> 12) * 17 + (size_t)seed) & 0xff);
}

// Makes a call with known bytes, and checks every byte that this rank receives. Ends the MPI job if
// a byte is wrong.
static void verify(struct side* s, int seed) {
  const int fill = s->fill;
  s->fill = 0;
  for (int slot = 0; slot < s->slots; slot++) {
    char* out = s->send_pool + (size_t)slot * s->stride;
    for (size_t i = 0; i < s->bytes; i++) out[i] = (char)pattern(i, seed + s->first);
  }
  one_call(s);
  s->fill = fill;
  const int expected = seed + (s->echo ? 1 : !s->first);  // --echo: the first side's pattern
  for (int message = 0; message < s->depth; message++) {
    const char* in = next_receive(s);
    for (size_t i = 0; i < s->bytes; i++) {
      if ((unsigned char)in[i] != pattern(i, expected)) fail("wrong byte received");
    }
    s->slot = (s->slot + 1) % s->slots;
  }
}

// Returns the number of calls that fill a batch of `batch_ms`. The rank that sends first computes
// the number and sends it to its peer.
static int calibrate(struct side* s, double batch_ms) {
  int calls = 0;
  const double start = now_ns();
  for (int i = 0; i < kWarmUps; i++) one_call(s);
  const double once = (now_ns() - start) / kWarmUps;
  if (s->first) {
    calls = (int)(batch_ms * 1e6 / once) + 1;
    if (calls > kMaxCalls) calls = kMaxCalls;
    MPI_Send(&calls, 1, MPI_INT, s->peer, kTag, s->comm);
  } else {
    MPI_Recv(&calls, 1, MPI_INT, s->peer, kTag, s->comm, MPI_STATUS_IGNORE);
  }
  return calls;
}

// The results of the calls of a batch that are timed one by one.
struct timed {
  double time[kMaxCalls];     // ns of the communication alone
  double touched[kMaxCalls];  // ns of reading the buffer
  double peer[kMaxCalls];     // one way: ns outside communication, sent to the first side
  double begun[kMaxCalls];    // both ways: time at which this rank began to communicate
  double ended[kMaxCalls];    // both ways: time at which this rank ended
  double peer_begun[kMaxCalls];
  double peer_ended[kMaxCalls];
};

static void to_first(struct side* s, double* from, double* to, int calls) {
  if (s->first) {
    MPI_Recv(to, calls, MPI_DOUBLE, s->peer, kTag, s->comm, MPI_STATUS_IGNORE);
  } else {
    MPI_Send(from, calls, MPI_DOUBLE, s->peer, kTag, s->comm);
  }
}

static double later(double a, double b) { return a > b ? a : b; }

// Subtracts the peer's time outside of communication from this rank's times. In a PingPong, the
// peer spends that time within the round trip. In an exchange, cores write and read buffers at
// different speeds, so the ranks begin and end at different times. The time of an exchange lasts
// from the later begin to the later end; both ranks must read the same clock.
static void take_off_the_peers(struct side* s, struct timed* t, int calls) {
  if (!s->touch && !s->fill) return;
  if (!both_ways(s->mode)) {
    to_first(s, t->peer, t->peer, calls);
    for (int c = 0; s->first && c < calls; c++) t->time[c] -= t->peer[c];
    return;
  }
  to_first(s, t->begun, t->peer_begun, calls);
  to_first(s, t->ended, t->peer_ended, calls);
  for (int c = 0; s->first && c < calls; c++) {
    t->time[c] = later(t->ended[c], t->peer_ended[c]) - later(t->begun[c], t->peer_begun[c]);
  }
}

static void timed_batch(struct side* s, struct timed* t, int calls) {
  for (int c = 0; c < calls; c++) {
    const double start = now_ns();
    const struct spent spent = one_call(s);
    const double end = now_ns();
    t->begun[c] = start + spent.writing;
    t->ended[c] = end - spent.reading;
    t->time[c] = end - start - spent.reading - spent.writing;
    t->touched[c] = spent.reading;
    t->peer[c] = spent.reading + spent.writing;
  }
  take_off_the_peers(s, t, calls);
}

static void print_result(const struct side* s, const struct samples* time,
                         const struct samples* touched, int calls, int ranks) {
  printf(
      "{\"kind\": \"pingpong\", \"mode\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"slots\": %d, ",
      kModeNames[s->mode], s->bytes, ranks, s->slots);
  if (s->depth > 1) printf("\"depth\": %d, ", s->depth);
  printf("\"calls\": %d, ", calls);
  print_samples(time);
  if (s->touch) {
    printf(", ");
    print_values("touch_ns", touched->median, touched->batches);
  }
  printf("}\n");
  fflush(stdout);
}

static void measure(struct side* s, const struct options* o, int ranks) {
  const int one_by_one = s->bytes >= kTimedBytes || s->touch || s->fill;
  const double ways = both_ways(s->mode) ? s->depth : 2;
  struct timed* timed = malloc(sizeof *timed);
  if (timed == NULL) fail("out of memory");
  struct samples sent = samples_new(o->batches, one_by_one);
  struct samples touched = samples_new(o->batches, 1);
  const int calls = calibrate(s, o->batch_ms);
  for (int b = 0; b < o->batches; b++) {
    turns_next();
    for (int i = 0; i < kWarmUps / 2; i++) one_call(s);  // warms caches after another launch's turn
    if (one_by_one) {
      timed_batch(s, timed, calls);
      for (int c = 0; c < calls; c++) timed->time[c] /= ways;
      samples_store(&sent, b, timed->time, calls);
      samples_store(&touched, b, timed->touched, calls);
    } else {
      const double start = now_ns();
      for (int c = 0; c < calls; c++) one_call(s);
      sent.mean[b] = (now_ns() - start) / calls / ways;
    }
  }
  if (s->first) print_result(s, &sent, &touched, calls, ranks);
  samples_free(&sent);
  samples_free(&touched);
  free(timed);
}

static void pingpong(MPI_Comm comm, const struct options* o, size_t bytes, int first, int ranks) {
  struct side s = {.comm = comm, .mode = o->mode, .bytes = bytes, .first = first};
  s.peer = first ? o->partner : 0;
  s.touch = o->touch;
  s.fill = o->fill;
  s.echo = o->echo;
  s.stride = (bytes + 4095) / 4096 * 4096;
  s.depth = o->depth;
  s.slots = o->cold > s.stride ? (int)(o->cold / s.stride) : 1;
  if (s.slots < s.depth) s.slots = s.depth;
  const size_t pool = s.stride * (size_t)s.slots;
  if (s.mode == kMapped) s.mapped = mapped_new(comm, pool);
  s.send_pool = s.mode == kMapped ? s.mapped.own : buffer_new(pool, 1);
  s.receive_pool = s.echo ? s.send_pool : buffer_new(pool, 2);
  verify(&s, 3);
  measure(&s, o, ranks);
  verify(&s, 77);
  if (s.mode == kMapped) {
    mapped_free(&s.mapped);
  } else {
    buffer_free(s.send_pool);
  }
  if (!s.echo) buffer_free(s.receive_pool);
}

static void print_limit(MPI_Comm team, size_t bytes) {
  enum { kBatches = 7 };
  double rate[kBatches];
  int rank, ranks;
  MPI_Comm_rank(team, &rank);
  MPI_Comm_size(team, &ranks);
  memcpy_rate(team, bytes, kBatches, rate);
  if (rank != 0) return;
  printf("{\"kind\": \"memcpy\", \"bytes\": %zu, \"ranks\": %d, ", bytes, ranks);
  print_values("gb_per_s", rate, kBatches);
  printf("}\n");
}

// Collective over MPI_COMM_WORLD. Prints the rates of memcpy at the size of the message, which
// limit the rates of messages: of one core alone, of the two ranks together, of all ranks together.
static void limits(MPI_Comm pair, size_t bytes, int rank, int ranks) {
  if (rank == 0) print_limit(MPI_COMM_SELF, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  if (pair != MPI_COMM_NULL) print_limit(pair, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  if (ranks > 2) print_limit(MPI_COMM_WORLD, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
}

static MPI_Comm hinted_world(const char* access) {
  MPI_Comm comm;
  if (access == NULL) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    return comm;
  }
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "post_comm_access", access);
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  return comm;
}

static enum mode parse_mode(const char* text) {
  for (int m = kBlocking; m <= kMapped; m++) {
    if (strcmp(text, kModeNames[m]) == 0) return (enum mode)m;
  }
  fail("--mode is one of blocking, nonblocking, test, exchange, mapped");
  return kBlocking;
}

static struct options parse(int argc, char** argv) {
  struct options o = {.partner = 1, .depth = 1, .batches = 15, .batch_ms = 8};
  const char* mode = kModeNames[kBlocking];
  o.sizes = parse_sizes("8,1K,8K,32K,64K,128K,256K,512K,1M,2M,4M,8M");
  const struct option_to options[] = {{"sizes", kSizes, &o.sizes},
                                      {"mode", kText, &mode},
                                      {"partner", kNumber, &o.partner},
                                      {"depth", kNumber, &o.depth},
                                      {"touch", kFlag, &o.touch},
                                      {"fill", kFlag, &o.fill},
                                      {"echo", kFlag, &o.echo},
                                      {"access", kText, &o.access},
                                      {"cold", kBytes, &o.cold},
                                      {"batches", kNumber, &o.batches},
                                      {"batch-ms", kReal, &o.batch_ms},
                                      {"no-limit", kFlag, &o.no_limit},
                                      {0}};
  parse_options("pingpong", argc, argv, options);
  o.mode = parse_mode(mode);
  return o;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options o = parse(argc, argv);
  if (o.partner <= 0 || o.partner >= ranks) fail("--partner must be a rank above 0");
  if (o.echo && both_ways(o.mode)) fail("--echo cannot exchange: one buffer, two messages");
  if (o.depth < 1 || o.depth > kMaxDepth) fail("--depth must be 1 to 256");
  if (o.depth > 1 && (o.mode != kExchange || o.touch || o.fill)) {
    fail("--depth is for --mode exchange, without --touch and --fill");
  }
  if (o.batches < 1) fail("--batches must be at least 1");
  const int in_pair = rank == 0 || rank == o.partner;
  MPI_Comm comm = hinted_world(o.access), pair;
  MPI_Comm_split(MPI_COMM_WORLD, in_pair ? 0 : MPI_UNDEFINED, rank, &pair);
  print_config("pingpong", argc, argv);
  turns_begin(rank);
  for (int i = 0; i < o.sizes.count; i++) {
    const size_t bytes = o.sizes.bytes[i];
    if (in_pair) pingpong(comm, &o, bytes, rank == 0, ranks);
    MPI_Barrier(MPI_COMM_WORLD);  // ranks outside of the pair wait in this barrier meanwhile
    if (!o.no_limit && bytes >= 65536) limits(pair, bytes, rank, ranks);
  }
  if (pair != MPI_COMM_NULL) MPI_Comm_free(&pair);
  MPI_Comm_free(&comm);
  turns_end();
  MPI_Finalize();
  return 0;
}
