// SPDX-License-Identifier: BSD-3-Clause
//
// Plays the collective steps of a fuzzer round, blocking and nonblocking, and checks each result
// against a sum or copy that the fuzzer computes itself.
//
// A rank's contribution is the fuzzer's payload for the step and the rank: bytes that are hashes.
// In calls with a count for each rank (MPI_Gatherv) the counts are hashes, and some are zero.
// Reductions have the same result in every order of evaluation: they are on integers, or on two
// ranks. MPI_MAX of unsigned integers is left out because MPICH 4.0 compares unsigned integers as
// signed. Some calls use MPI_IN_PLACE.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { COLLECTIVE_BYTES = 300000, GAP = 3 };

typedef struct {
  Player* player;
  const Step* step;
  MPI_Comm comm;
  int rank, ranks, root;
  int count;  // elements of 4 bytes
  bool start;
  bool in_place;
  const struct Sum* sum;
  uint64_t id;
} Act;

typedef enum { U32, I32, I64, F64, U8 } Number;
typedef enum { ADD, TIMES, XOR, OR, AND, BOTH, EITHER, MOST, LEAST } Operation;

// A kind of reduction: its element type and its operation.
typedef struct Sum {
  const char* name;
  Number number;
  Operation operation;
} Sum;

static const Sum kSums[] = {
    {"uint32 sum", U32, ADD},    {"uint32 bxor", U32, XOR},   {"uint32 bor", U32, OR},
    {"uint32 prod", U32, TIMES}, {"uint32 lor", U32, EITHER}, {"int32 max", I32, MOST},
    {"int32 min", I32, LEAST},   {"int64 sum", I64, ADD},     {"int64 min", I64, LEAST},
    {"uint8 band", U8, AND},     {"int32 land", I32, BOTH},   {"double sum", F64, ADD},
    {"double prod", F64, TIMES},
};
enum { kAnySums = 11 };  // the first kinds are for any number of ranks, the others for two

static size_t bytes_of(const Sum* sum) {
  return sum->number == U8 ? 1 : sum->number == I64 || sum->number == F64 ? 8 : 4;
}
static MPI_Datatype type_of(const Sum* sum) {
  switch (sum->number) {
    case U32:
      return MPI_UINT32_T;
    case I32:
      return MPI_INT32_T;
    case I64:
      return MPI_INT64_T;
    case F64:
      return MPI_DOUBLE;
    default:
      return MPI_UINT8_T;
  }
}
static MPI_Op op_of(const Sum* sum) {
  switch (sum->operation) {
    case ADD:
      return MPI_SUM;
    case TIMES:
      return MPI_PROD;
    case XOR:
      return MPI_BXOR;
    case OR:
      return MPI_BOR;
    case AND:
      return MPI_BAND;
    case BOTH:
      return MPI_LAND;
    case EITHER:
      return MPI_LOR;
    case MOST:
      return MPI_MAX;
    default:
      return MPI_MIN;
  }
}

static void wrong(const Act* act, const char* what, int where) {
  fail(act->player, NULL, "%s%s on %s: wrong %s at %d (count %d, root %d of %d)",
       act->start ? "I" : "", collective_names[act->step->collective], comm_names[act->step->comm],
       what, where, act->count, act->root, act->ranks);
}

static uint32_t* room(int count) { return calloc((size_t)count + 1, sizeof(uint32_t)); }

static void contribute(const Act* act, int rank, int part, uint32_t* out, int count) {
  payload(mix2(act->id + (uint64_t)rank, (uint64_t)part), 0, (unsigned char*)out,
          (size_t)count * 4);
}

static void check_part(const Act* act, int from, int part, const uint32_t* got, int count) {
  uint32_t* want = room(count);
  contribute(act, from, part, want, count);
  for (int i = 0; i < count; ++i) {
    if (want[i] != got[i]) wrong(act, "data", i);
  }
  free(want);
}

static void done(const Act* act, MPI_Request* request) {
  MPI_Status status;
  if (act->start) finish_request(act->player, request, &status);
}

static int64_t combine_integers(Operation operation, int64_t a, int64_t b) {
  switch (operation) {
    case ADD:
      return (int64_t)((uint64_t)a + (uint64_t)b);
    case TIMES:
      return (int64_t)((uint64_t)a * (uint64_t)b);
    case XOR:
      return a ^ b;
    case OR:
      return a | b;
    case AND:
      return a & b;
    case BOTH:
      return a && b;
    case EITHER:
      return a || b;
    case MOST:
      return a > b ? a : b;
    default:
      return a < b ? a : b;
  }
}

// Combines element `i` of two arrays into the first.
static void combine(const Sum* sum, void* into, const void* with, size_t i) {
  const Operation operation = sum->operation;
  switch (sum->number) {
    case U32: {
      uint32_t* to = (uint32_t*)into + i;
      *to = (uint32_t)combine_integers(operation, *to, ((const uint32_t*)with)[i]);
      break;
    }
    case I32: {
      int32_t* to = (int32_t*)into + i;
      *to = (int32_t)combine_integers(operation, *to, ((const int32_t*)with)[i]);
      break;
    }
    case I64: {
      int64_t* to = (int64_t*)into + i;
      *to = combine_integers(operation, *to, ((const int64_t*)with)[i]);
      break;
    }
    case F64: {
      double* to = (double*)into + i;
      const double b = ((const double*)with)[i];
      *to = operation == ADD ? *to + b : *to * b;
      break;
    }
    default: {
      uint8_t* to = (uint8_t*)into + i;
      *to = (uint8_t)combine_integers(operation, *to, ((const uint8_t*)with)[i]);
    }
  }
}

// Returns a rank's contribution to the reduction of `act`: `count` elements of the type that is
// reduced. Floating-point numbers are finite.
static void* numbers(const Act* act, int rank, int count) {
  const size_t bytes = (size_t)count * bytes_of(act->sum);
  void* out = calloc(bytes + 8, 1);
  payload(mix2(act->id + (uint64_t)rank, 0), 0, out, bytes);
  for (int i = 0; act->sum->number == F64 && i < count; ++i) {
    int32_t mantissa;
    memcpy(&mantissa, (char*)out + (size_t)i * 8, sizeof mantissa);
    ((double*)out)[i] = mantissa * 0.1;
  }
  return out;
}

// Returns the expected result: the reduction of the contributions of ranks first..last, element by
// element.
static void* reduced(const Act* act, int first, int last, int count) {
  void* result = numbers(act, first, count);
  for (int rank = first + 1; rank <= last; ++rank) {
    void* next = numbers(act, rank, count);
    for (int i = 0; i < count; ++i) combine(act->sum, result, next, (size_t)i);
    free(next);
  }
  return result;
}

static void check_reduced(const Act* act, int first, int last, int total, int skip, const void* got,
                          int count) {
  char* want = reduced(act, first, last, total);
  const size_t width = bytes_of(act->sum);
  if (memcmp(want + (size_t)skip * width, got, (size_t)count * width) != 0)
    wrong(act, act->sum->name, skip);
  free(want);
}

static int count_for(const Act* act, int from, int to) {
  uint64_t x = mix2(act->id + 5, (uint64_t)(from * 64 + to));
  return x % 10 < 3 ? 0 : (int)((x >> 8) % ((uint64_t)act->count + 1));
}

// Sets the count and the displacement of each peer's block in a buffer. The blocks lie in the order
// from the last peer to the first, with a gap behind each. Returns the length of the buffer, with
// all gaps, in elements. `incoming`: the buffer receives the blocks; otherwise it has those to
// send.
static int spread(const Act* act, int* counts, int* displacements, bool incoming) {
  int next = 0;
  for (int peer = act->ranks - 1; peer >= 0; --peer) {
    counts[peer] = incoming ? count_for(act, peer, act->rank) : count_for(act, act->rank, peer);
    displacements[peer] = next;
    next += counts[peer] + GAP;
  }
  return next;
}

static void do_barrier(Act* act) {
  MPI_Request request;
  act->start ? MPI_Ibarrier(act->comm, &request) : MPI_Barrier(act->comm);
  done(act, &request);
}

static void do_bcast(Act* act) {
  Rng common = {act->id};
  int element = (int)rng_below(&common, (uint32_t)element_kinds());
  size_t bytes = pick_bytes(&common, options.max_bytes);
  uint64_t seed = rng_chance(&common, 50) ? 0 : rng_next(&common) | 1;
  Layout* layout = layout_make(seed, element, rng_chance(&common, 50));
  size_t items = bytes / layout->size;
  bytes = items * layout->size;
  Buffer buffer = buffer_make(layout, items, act->id + 3);
  if (act->rank == act->root) buffer_put(&buffer, layout, act->id, bytes);
  MPI_Request request;
  if (act->start) {
    MPI_Ibcast(buffer.base, (int)items, layout->type, act->root, act->comm, &request);
  } else {
    MPI_Bcast(buffer.base, (int)items, layout->type, act->root, act->comm);
  }
  done(act, &request);
  ptrdiff_t first = 0;
  if (buffer_wrong(&buffer, layout, act->id + 3, act->id, bytes, &first) != 0) {
    wrong(act, layout->name, (int)first);
  }
  buffer_free(&buffer);
  layout_free(layout);
}

static void do_inter_bcast(Act* act) {
  Player* player = act->player;
  int half = player->ranks / 2;
  bool low = player->rank < half;
  int root = low ? (player->rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
  uint32_t* data = room(act->count);
  if (root == MPI_ROOT) contribute(act, 0, 0, data, act->count);
  MPI_Request request;
  if (act->start) {
    MPI_Ibcast(data, act->count, MPI_UINT32_T, root, act->comm, &request);
  } else {
    MPI_Bcast(data, act->count, MPI_UINT32_T, root, act->comm);
  }
  done(act, &request);
  if (!low) check_part(act, 0, 0, data, act->count);
  free(data);
}

static void do_reductions(Act* act) {
  const Collective which = act->step->collective;
  const bool scatters = which == REDUCE_SCATTER || which == REDUCE_SCATTER_BLOCK;
  const size_t width = bytes_of(act->sum);
  const int n = (int)((size_t)act->count * 4 / width);
  const int given = scatters ? n * act->ranks : n;
  void* in = numbers(act, act->rank, given);
  void* out = calloc((size_t)given * width + 8, 1);
  int* counts = malloc(sizeof(int) * (size_t)act->ranks);
  for (int i = 0; i < act->ranks; ++i) counts[i] = n;
  const bool in_place = act->in_place && (which != REDUCE || act->rank == act->root);
  if (in_place) memcpy(out, in, (size_t)given * width);
  const void* from = in_place ? MPI_IN_PLACE : in;
  MPI_Request r;
  MPI_Comm c = act->comm;
  MPI_Op op = op_of(act->sum);
  bool s = act->start;
  MPI_Datatype t = type_of(act->sum);
  switch (which) {
    case REDUCE:
      s ? MPI_Ireduce(from, out, n, t, op, act->root, c, &r)
        : MPI_Reduce(from, out, n, t, op, act->root, c);
      break;
    case ALLREDUCE:
      s ? MPI_Iallreduce(from, out, n, t, op, c, &r) : MPI_Allreduce(from, out, n, t, op, c);
      break;
    case SCAN:
      s ? MPI_Iscan(from, out, n, t, op, c, &r) : MPI_Scan(from, out, n, t, op, c);
      break;
    case EXSCAN:
      s ? MPI_Iexscan(from, out, n, t, op, c, &r) : MPI_Exscan(from, out, n, t, op, c);
      break;
    case REDUCE_SCATTER:
      s ? MPI_Ireduce_scatter(from, out, counts, t, op, c, &r)
        : MPI_Reduce_scatter(from, out, counts, t, op, c);
      break;
    default:
      s ? MPI_Ireduce_scatter_block(from, out, n, t, op, c, &r)
        : MPI_Reduce_scatter_block(from, out, n, t, op, c);
  }
  done(act, &r);
  int last = which == SCAN ? act->rank : which == EXSCAN ? act->rank - 1 : act->ranks - 1;
  bool defined = which == REDUCE ? act->rank == act->root : last >= 0;
  if (defined) check_reduced(act, 0, last, given, scatters ? act->rank * n : 0, out, n);
  free(in);
  free(out);
  free(counts);
}

// Plays MPI_Gather, Scatter, Allgather or Alltoall, with the same count for all ranks.
static void do_regular(Act* act) {
  int n = act->count, ranks = act->ranks;
  Collective which = act->step->collective;
  bool many_in = which == SCATTER || which == ALLTOALL;
  bool many_out = which == GATHER || which == ALLGATHER || which == ALLTOALL;
  uint32_t *in = room(many_in ? n * ranks : n), *out = room(many_out ? n * ranks : n);
  for (int i = 0; i < (many_in ? ranks : 1); ++i) contribute(act, act->rank, i, in + i * n, n);
  MPI_Request r;
  MPI_Comm c = act->comm;
  MPI_Datatype t = MPI_UINT32_T;
  bool s = act->start;
  int root = act->root;
  const bool in_place = act->in_place && (which == ALLGATHER || act->rank == root);
  const void* from = in;
  void* to = out;
  if (in_place && (which == GATHER || which == ALLGATHER)) {
    memcpy(out + act->rank * n, in, (size_t)n * 4);
    from = MPI_IN_PLACE;
  }
  if (in_place && which == SCATTER) to = MPI_IN_PLACE;
  switch (which) {
    case GATHER:
      s ? MPI_Igather(from, n, t, out, n, t, root, c, &r)
        : MPI_Gather(from, n, t, out, n, t, root, c);
      break;
    case SCATTER:
      s ? MPI_Iscatter(in, n, t, to, n, t, root, c, &r) : MPI_Scatter(in, n, t, to, n, t, root, c);
      break;
    case ALLGATHER:
      s ? MPI_Iallgather(from, n, t, out, n, t, c, &r) : MPI_Allgather(from, n, t, out, n, t, c);
      break;
    default:
      s ? MPI_Ialltoall(in, n, t, out, n, t, c, &r) : MPI_Alltoall(in, n, t, out, n, t, c);
  }
  done(act, &r);
  if (which == SCATTER && to == out) check_part(act, root, act->rank, out, n);
  bool gathers = which == ALLGATHER || which == ALLTOALL || (which == GATHER && act->rank == root);
  for (int i = 0; gathers && i < ranks; ++i) {
    check_part(act, i, which == ALLTOALL ? act->rank : 0, out + i * n, n);
  }
  free(in);
  free(out);
}

// Plays MPI_Gatherv, Scatterv or Allgatherv. The block of rank i has count_for(i, 0) elements.
static void do_irregular(Act* act) {
  int ranks = act->ranks, root = act->root, next = 0;
  Collective which = act->step->collective;
  int* counts = malloc(sizeof(int) * (size_t)ranks * 2);
  int* at = counts + ranks;
  for (int i = ranks - 1; i >= 0; --i) {
    counts[i] = count_for(act, i, 0);
    at[i] = next;
    next += counts[i] + GAP;
  }
  int n = counts[act->rank];
  const bool in_place = act->in_place && (which == ALLGATHERV || act->rank == root);
  uint32_t *all = room(next), *own = in_place ? all + at[act->rank] : room(n);
  const void* from = in_place ? MPI_IN_PLACE : own;
  void* to = in_place ? MPI_IN_PLACE : own;
  MPI_Request r;
  MPI_Comm c = act->comm;
  MPI_Datatype t = MPI_UINT32_T;
  bool s = act->start;
  if (which == SCATTERV) {
    for (int i = 0; i < ranks; ++i) contribute(act, root, i, all + at[i], counts[i]);
    s ? MPI_Iscatterv(all, counts, at, t, to, n, t, root, c, &r)
      : MPI_Scatterv(all, counts, at, t, to, n, t, root, c);
  } else {
    contribute(act, act->rank, 0, own, n);
    if (which == GATHERV) {
      s ? MPI_Igatherv(from, n, t, all, counts, at, t, root, c, &r)
        : MPI_Gatherv(from, n, t, all, counts, at, t, root, c);
    } else {
      s ? MPI_Iallgatherv(from, n, t, all, counts, at, t, c, &r)
        : MPI_Allgatherv(from, n, t, all, counts, at, t, c);
    }
  }
  done(act, &r);
  if (which == SCATTERV) check_part(act, root, act->rank, own, n);
  bool gathers = which == ALLGATHERV || (which == GATHERV && act->rank == root);
  for (int i = 0; gathers && i < ranks; ++i) check_part(act, i, 0, all + at[i], counts[i]);
  if (!in_place) free(own);
  free(all);
  free(counts);
}

// The send or receive buffer of MPI_Alltoallv or MPI_Alltoallw, which have a count for each rank.
// Half of the buffers have a gap behind each element.
typedef struct {
  int *counts, *at;  // `at`: offsets in elements
  int stride;        // distance of elements, in units of 4 bytes
  MPI_Datatype type;
  uint32_t* data;
} Side;

static Side side_make(const Act* act, bool incoming) {
  Side side;
  side.counts = malloc(sizeof(int) * (size_t)act->ranks);
  side.at = malloc(sizeof(int) * (size_t)act->ranks);
  side.stride = 1 + (int)(mix2(act->id + 9, (uint64_t)(2 * act->rank + incoming)) % 2);
  side.data = room(spread(act, side.counts, side.at, incoming) * side.stride);
  MPI_Type_create_resized(MPI_UINT32_T, 0, side.stride * 4, &side.type);
  MPI_Type_commit(&side.type);
  return side;
}

static void side_free(Side* side) {
  MPI_Type_free(&side->type);
  free(side->counts);
  free(side->at);
  free(side->data);
}

static void side_put(const Act* act, const Side* side, int peer) {
  uint32_t* part = room(side->counts[peer]);
  contribute(act, act->rank, peer, part, side->counts[peer]);
  for (int i = 0; i < side->counts[peer]; ++i)
    side->data[(side->at[peer] + i) * side->stride] = part[i];
  free(part);
}

static void side_check(const Act* act, const Side* side, int peer) {
  uint32_t* part = room(side->counts[peer]);
  for (int i = 0; i < side->counts[peer]; ++i)
    part[i] = side->data[(side->at[peer] + i) * side->stride];
  check_part(act, peer, act->rank, part, side->counts[peer]);
  free(part);
}

static void exchange_by_type(const Act* act, const Side* out, const Side* in, MPI_Request* r) {
  const int ranks = act->ranks;
  int* bytes = malloc(sizeof(int) * (size_t)ranks * 2);
  MPI_Datatype* types = malloc(sizeof(MPI_Datatype) * (size_t)ranks * 2);
  for (int i = 0; i < ranks; ++i) {
    bytes[i] = out->at[i] * out->stride * 4;
    bytes[ranks + i] = in->at[i] * in->stride * 4;
    types[i] = out->type;
    types[ranks + i] = in->type;
  }
  if (act->start) {
    MPI_Ialltoallw(out->data, out->counts, bytes, types, in->data, in->counts, bytes + ranks,
                   types + ranks, act->comm, r);
  } else {
    MPI_Alltoallw(out->data, out->counts, bytes, types, in->data, in->counts, bytes + ranks,
                  types + ranks, act->comm);
  }
  done(act, r);  // the library may read the arrays until this point
  free(bytes);
  free(types);
}

static void do_alltoall_irregular(Act* act) {
  Side out = side_make(act, false), in = side_make(act, true);
  for (int i = 0; i < act->ranks; ++i) side_put(act, &out, i);
  MPI_Request r;
  if (act->step->collective == ALLTOALLW) {
    exchange_by_type(act, &out, &in, &r);
  } else if (act->start) {
    MPI_Ialltoallv(out.data, out.counts, out.at, out.type, in.data, in.counts, in.at, in.type,
                   act->comm, &r);
    done(act, &r);
  } else {
    MPI_Alltoallv(out.data, out.counts, out.at, out.type, in.data, in.counts, in.at, in.type,
                  act->comm);
  }
  for (int i = 0; i < act->ranks; ++i) side_check(act, &in, i);
  side_free(&out);
  side_free(&in);
}

void play_collective(Player* player, const Step* step) {
  Rng common = {step->seed};
  Act act = {.player = player, .step = step, .comm = player->comm[step->comm], .id = step->seed};
  if (act.comm == MPI_COMM_NULL) return;
  MPI_Comm_rank(act.comm, &act.rank);
  MPI_Comm_size(act.comm, &act.ranks);
  size_t most = options.max_bytes < COLLECTIVE_BYTES ? options.max_bytes : COLLECTIVE_BYTES;
  act.count = (int)(pick_bytes(&common, most) / 4);
  act.root = (int)rng_below(&common, (uint32_t)act.ranks);
  act.start = rng_chance(&common, 35);
  // MPICH 4.0 crashes in some nonblocking collectives with MPI_IN_PLACE, so only blocking
  // collectives use it.
  act.in_place = rng_chance(&common, 30) && !act.start;
  act.sum = &kSums[rng_below(&common, act.ranks == 2 ? sizeof kSums / sizeof kSums[0] : kAnySums)];
  player->used_collective[step->collective]++;
  player->doing = collective_names[step->collective];
  switch (step->collective) {
    case BARRIER:
      do_barrier(&act);
      break;
    case BCAST:
      do_bcast(&act);
      break;
    case INTER_BCAST:
      do_inter_bcast(&act);
      break;
    case GATHER:
    case SCATTER:
    case ALLGATHER:
    case ALLTOALL:
      do_regular(&act);
      break;
    case GATHERV:
    case SCATTERV:
    case ALLGATHERV:
      do_irregular(&act);
      break;
    case ALLTOALLV:
    case ALLTOALLW:
      do_alltoall_irregular(&act);
      break;
    default:
      do_reductions(&act);
      break;
  }
  player->hash += mix2(step->seed, (uint64_t)act.count);
}
