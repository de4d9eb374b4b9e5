// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives between the messages, blocking and non-blocking, each with its result checked.
//
// A rank's contribution is the payload of (step, rank in the communicator). Counts of the v-forms
// are hashes, and some are zero. Reductions use unsigned integers, so that every order of
// evaluation gives the same result. MPI_MAX is left out because MPICH 4.0 compares these as signed.
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
  MPI_Op op;
  uint64_t id;
} Act;

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

static uint32_t combine(const Act* act, uint32_t a, uint32_t b) {
  if (act->op == MPI_SUM) return a + b;
  if (act->op == MPI_BXOR) return a ^ b;
  return a | b;
}

// The reduction of the contributions of ranks first..last, element by element.
static uint32_t* reduced(const Act* act, int first, int last, int count) {
  uint32_t *result = room(count), *next = room(count);
  contribute(act, first, 0, result, count);
  for (int rank = first + 1; rank <= last; ++rank) {
    contribute(act, rank, 0, next, count);
    for (int i = 0; i < count; ++i) result[i] = combine(act, result[i], next[i]);
  }
  free(next);
  return result;
}

static void check_reduced(const Act* act, int first, int last, int total, int skip,
                          const uint32_t* got, int count) {
  uint32_t* want = reduced(act, first, last, total);
  if (memcmp(want + skip, got, (size_t)count * 4) != 0) wrong(act, "reduction", skip);
  free(want);
}

static int count_for(const Act* act, int from, int to) {
  uint64_t x = mix2(act->id + 5, (uint64_t)(from * 64 + to));
  return x % 10 < 3 ? 0 : (int)((x >> 8) % ((uint64_t)act->count + 1));
}

// Sets counts and displacements for all peers, from the last peer to the first, with gaps.
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
  int n = act->count, total = n * act->ranks;
  Collective which = act->step->collective;
  bool scatters = which == REDUCE_SCATTER || which == REDUCE_SCATTER_BLOCK;
  int given = scatters ? total : n;
  uint32_t *in = room(given), *out = room(n);
  int* counts = malloc(sizeof(int) * (size_t)act->ranks);
  for (int i = 0; i < act->ranks; ++i) counts[i] = n;
  contribute(act, act->rank, 0, in, given);
  MPI_Request r;
  MPI_Comm c = act->comm;
  MPI_Op op = act->op;
  MPI_Datatype t = MPI_UINT32_T;
  bool s = act->start;
  switch (which) {
    case REDUCE:
      s ? MPI_Ireduce(in, out, n, t, op, act->root, c, &r)
        : MPI_Reduce(in, out, n, t, op, act->root, c);
      break;
    case ALLREDUCE:
      s ? MPI_Iallreduce(in, out, n, t, op, c, &r) : MPI_Allreduce(in, out, n, t, op, c);
      break;
    case SCAN:
      s ? MPI_Iscan(in, out, n, t, op, c, &r) : MPI_Scan(in, out, n, t, op, c);
      break;
    case EXSCAN:
      s ? MPI_Iexscan(in, out, n, t, op, c, &r) : MPI_Exscan(in, out, n, t, op, c);
      break;
    case REDUCE_SCATTER:
      s ? MPI_Ireduce_scatter(in, out, counts, t, op, c, &r)
        : MPI_Reduce_scatter(in, out, counts, t, op, c);
      break;
    default:
      s ? MPI_Ireduce_scatter_block(in, out, n, t, op, c, &r)
        : MPI_Reduce_scatter_block(in, out, n, t, op, c);
  }
  done(act, &r);
  int last = which == SCAN ? act->rank : which == EXSCAN ? act->rank - 1 : act->ranks - 1;
  bool defined = which == REDUCE ? act->rank == act->root : last >= 0;
  if (defined) check_reduced(act, 0, last, given, scatters ? act->rank * n : 0, out, n);
  free(in);
  free(out);
  free(counts);
}

// Gather, scatter, allgather, alltoall with the same count for all ranks.
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
  switch (which) {
    case GATHER:
      s ? MPI_Igather(in, n, t, out, n, t, root, c, &r) : MPI_Gather(in, n, t, out, n, t, root, c);
      break;
    case SCATTER:
      s ? MPI_Iscatter(in, n, t, out, n, t, root, c, &r)
        : MPI_Scatter(in, n, t, out, n, t, root, c);
      break;
    case ALLGATHER:
      s ? MPI_Iallgather(in, n, t, out, n, t, c, &r) : MPI_Allgather(in, n, t, out, n, t, c);
      break;
    default:
      s ? MPI_Ialltoall(in, n, t, out, n, t, c, &r) : MPI_Alltoall(in, n, t, out, n, t, c);
  }
  done(act, &r);
  if (which == SCATTER) check_part(act, root, act->rank, out, n);
  bool gathers = which == ALLGATHER || which == ALLTOALL || (which == GATHER && act->rank == root);
  for (int i = 0; gathers && i < ranks; ++i) {
    check_part(act, i, which == ALLTOALL ? act->rank : 0, out + i * n, n);
  }
  free(in);
  free(out);
}

// Gatherv, scatterv, allgatherv: rank i's part has count_for(i, 0) elements.
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
  uint32_t *all = room(next), *own = room(n);
  MPI_Request r;
  MPI_Comm c = act->comm;
  MPI_Datatype t = MPI_UINT32_T;
  bool s = act->start;
  if (which == SCATTERV) {
    for (int i = 0; i < ranks; ++i) contribute(act, root, i, all + at[i], counts[i]);
    s ? MPI_Iscatterv(all, counts, at, t, own, n, t, root, c, &r)
      : MPI_Scatterv(all, counts, at, t, own, n, t, root, c);
  } else {
    contribute(act, act->rank, 0, own, n);
    if (which == GATHERV) {
      s ? MPI_Igatherv(own, n, t, all, counts, at, t, root, c, &r)
        : MPI_Gatherv(own, n, t, all, counts, at, t, root, c);
    } else {
      s ? MPI_Iallgatherv(own, n, t, all, counts, at, t, c, &r)
        : MPI_Allgatherv(own, n, t, all, counts, at, t, c);
    }
  }
  done(act, &r);
  if (which == SCATTERV) check_part(act, root, act->rank, own, n);
  bool gathers = which == ALLGATHERV || (which == GATHERV && act->rank == root);
  for (int i = 0; gathers && i < ranks; ++i) check_part(act, i, 0, all + at[i], counts[i]);
  free(all);
  free(own);
  free(counts);
}

static void do_alltoall_irregular(Act* act) {
  int ranks = act->ranks;
  size_t one = (size_t)ranks;
  int* numbers = malloc(sizeof(int) * one * 4);
  int *out_counts = numbers, *out_at = numbers + one;
  int *in_counts = numbers + 2 * one, *in_at = numbers + 3 * one;
  MPI_Datatype* types = malloc(sizeof(MPI_Datatype) * one);
  uint32_t* out = room(spread(act, out_counts, out_at, false));
  uint32_t* in = room(spread(act, in_counts, in_at, true));
  for (int i = 0; i < ranks; ++i) {
    types[i] = MPI_UINT32_T;
    contribute(act, act->rank, i, out + out_at[i], out_counts[i]);
  }
  bool bytes = act->step->collective == ALLTOALLW;
  for (int i = 0; bytes && i < ranks; ++i) {
    out_at[i] *= 4;
    in_at[i] *= 4;
  }
  MPI_Request r;
  MPI_Comm c = act->comm;
  MPI_Datatype t = MPI_UINT32_T;
  if (bytes) {
    act->start ? MPI_Ialltoallw(out, out_counts, out_at, types, in, in_counts, in_at, types, c, &r)
               : MPI_Alltoallw(out, out_counts, out_at, types, in, in_counts, in_at, types, c);
  } else {
    act->start ? MPI_Ialltoallv(out, out_counts, out_at, t, in, in_counts, in_at, t, c, &r)
               : MPI_Alltoallv(out, out_counts, out_at, t, in, in_counts, in_at, t, c);
  }
  done(act, &r);
  for (int i = 0; i < ranks; ++i) {
    check_part(act, i, act->rank, in + in_at[i] / (bytes ? 4 : 1), in_counts[i]);
  }
  free(out);
  free(in);
  free(types);
  free(numbers);
}

void play_collective(Player* player, const Step* step) {
  Rng common = {step->seed};
  const MPI_Op ops[] = {MPI_SUM, MPI_BXOR, MPI_BOR};
  Act act = {.player = player, .step = step, .comm = player->comm[step->comm], .id = step->seed};
  if (act.comm == MPI_COMM_NULL) return;
  MPI_Comm_rank(act.comm, &act.rank);
  MPI_Comm_size(act.comm, &act.ranks);
  size_t most = options.max_bytes < COLLECTIVE_BYTES ? options.max_bytes : COLLECTIVE_BYTES;
  act.count = (int)(pick_bytes(&common, most) / 4);
  act.root = (int)rng_below(&common, (uint32_t)act.ranks);
  act.start = rng_chance(&common, 35);
  act.op = ops[rng_below(&common, 3)];
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
