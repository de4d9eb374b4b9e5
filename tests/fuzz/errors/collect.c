// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives that some ranks call wrongly before all ranks call them correctly. Between the
// calls communicators are made and freed.
//
// The library refuses a wrong call because of the arguments, before any message, so the call does
// not involve other ranks. The send and receive counts are both wrong, so every rank refuses the
// call, whatever its part in the collective.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

// clang-format off
#define COLLECTIVES(X) X(Barrier) X(Bcast) X(Reduce) X(Allreduce) X(Gather) X(Gatherv) X(Scatter)  \
  X(Scatterv) X(Allgather) X(Allgatherv) X(Alltoall) X(Alltoallv) X(Scan) X(Exscan)                \
  X(Reduce_scatter_block) X(Reduce_scatter) X(Ibarrier) X(Ibcast) X(Iallreduce) X(Igather)
#define SPOILS(X) X(negative_count) X(null_type) X(null_op) X(root_too_high) X(root_too_low)       \
  X(null_comm) X(same_buffers)
#define COLLECTIVE_ENUM(name) C_##name,
#define SPOIL_ENUM(name) SPOIL_##name,
// clang-format on
typedef enum { COLLECTIVES(COLLECTIVE_ENUM) COLLECTIVE_COUNT } Collective;
typedef enum { SPOILS(SPOIL_ENUM) SPOIL_COUNT } Spoil;
static const char* const collective_names[] = {COLLECTIVES(AS_NAME)};
static const char* const spoil_names[] = {SPOILS(AS_NAME)};

enum { MOST_RANKS = 64 };

typedef struct {
  Collective which;
  int count, root, size, rank;
  int *from, *to;  // room for `count` elements of every rank
  int counts[MOST_RANKS], places[MOST_RANKS];
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;
} Act;

static int act_rooted(const Act* a) {
  int n = a->count, root = a->root;
  MPI_Datatype t = a->type;
  switch (a->which) {
    case C_Bcast:
      return MPI_Bcast(a->to, n, t, root, a->comm);
    case C_Reduce:
      return MPI_Reduce(a->from, a->to, n, t, a->op, root, a->comm);
    case C_Gather:
      return MPI_Gather(a->from, n, t, a->to, n, t, root, a->comm);
    case C_Gatherv:
      return MPI_Gatherv(a->from, n, t, a->to, a->counts, a->places, t, root, a->comm);
    case C_Scatter:
      return MPI_Scatter(a->from, n, t, a->to, n, t, root, a->comm);
    default:
      return MPI_Scatterv(a->from, a->counts, a->places, t, a->to, n, t, root, a->comm);
  }
}

static int act_all(const Act* a) {
  int n = a->count;
  MPI_Datatype t = a->type;
  switch (a->which) {
    case C_Barrier:
      return MPI_Barrier(a->comm);
    case C_Allreduce:
      return MPI_Allreduce(a->from, a->to, n, t, a->op, a->comm);
    case C_Allgather:
      return MPI_Allgather(a->from, n, t, a->to, n, t, a->comm);
    case C_Allgatherv:
      return MPI_Allgatherv(a->from, n, t, a->to, a->counts, a->places, t, a->comm);
    case C_Alltoall:
      return MPI_Alltoall(a->from, n, t, a->to, n, t, a->comm);
    case C_Alltoallv:
      return MPI_Alltoallv(a->from, a->counts, a->places, t, a->to, a->counts, a->places, t,
                           a->comm);
    case C_Scan:
      return MPI_Scan(a->from, a->to, n, t, a->op, a->comm);
    case C_Exscan:
      return MPI_Exscan(a->from, a->to, n, t, a->op, a->comm);
    case C_Reduce_scatter_block:
      return MPI_Reduce_scatter_block(a->from, a->to, n, t, a->op, a->comm);
    default:
      return MPI_Reduce_scatter(a->from, a->to, a->counts, t, a->op, a->comm);
  }
}

static int act_started(const Act* a) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code, n = a->count;
  switch (a->which) {
    case C_Ibarrier:
      code = MPI_Ibarrier(a->comm, &request);
      break;
    case C_Ibcast:
      code = MPI_Ibcast(a->to, n, a->type, a->root, a->comm, &request);
      break;
    case C_Iallreduce:
      code = MPI_Iallreduce(a->from, a->to, n, a->type, a->op, a->comm, &request);
      break;
    default:
      code = MPI_Igather(a->from, n, a->type, a->to, n, a->type, a->root, a->comm, &request);
  }
  if (code != MPI_SUCCESS) return code;
  return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int act(const Act* a, const char* name) {
  doing(name);
  switch (a->which) {
    case C_Bcast:
    case C_Reduce:
    case C_Gather:
    case C_Gatherv:
    case C_Scatter:
    case C_Scatterv:
      return act_rooted(a);
    case C_Ibarrier:
    case C_Ibcast:
    case C_Iallreduce:
    case C_Igather:
      return act_started(a);
    default:
      return act_all(a);
  }
}

static void act_make(Act* a, uint64_t id) {
  MPI_Comm_size(a->comm, &a->size);
  MPI_Comm_rank(a->comm, &a->rank);
  size_t room = (size_t)a->count * (size_t)a->size + 1;
  a->from = malloc(room * sizeof(int));
  a->to = malloc(room * sizeof(int));
  for (size_t i = 0; i < room; ++i) {
    a->from[i] = (int)(mix2(id + (uint64_t)a->rank, i) & 0xffffff);
    a->to[i] = a->which == C_Bcast || a->which == C_Ibcast ? a->from[i] : -1;
  }
  for (int i = 0; i < a->size; ++i) {
    a->counts[i] = a->count;
    a->places[i] = i * a->count;
  }
}

static uint64_t act_seen(const Act* a) {
  uint64_t hash = 0;
  size_t room = (size_t)a->count * (size_t)a->size + 1;
  bool defined = a->which != C_Exscan || a->rank != 0;
  for (size_t i = 0; i < room && defined; ++i) hash = mix64(hash ^ (uint64_t)(unsigned)a->to[i]);
  return hash;
}

static bool has_root(Collective which) {
  return (which >= C_Bcast && which <= C_Reduce) || (which >= C_Gather && which <= C_Scatterv) ||
         which == C_Ibcast || which == C_Igather;
}

static bool has_op(Collective which) {
  return which == C_Reduce || which == C_Allreduce || which == C_Iallreduce ||
         (which >= C_Scan && which <= C_Reduce_scatter);
}

static bool applies(Collective which, Spoil spoil) {
  bool barrier = which == C_Barrier || which == C_Ibarrier;
  switch (spoil) {
    case SPOIL_null_comm:
      return true;
    case SPOIL_null_op:
      return has_op(which);
    case SPOIL_root_too_high:
    case SPOIL_root_too_low:
      return has_root(which);
    case SPOIL_same_buffers:
      return which == C_Allreduce || which == C_Scan;
    default:
      return !barrier;
  }
}

static void act_wrongly(const Act* right, Spoil spoil) {
  Act a = *right;
  char name[80];
  snprintf(name, sizeof name, "%s with %s", collective_names[a.which], spoil_names[spoil]);
  if (left_out(name) || (spoil == SPOIL_same_buffers && a.count == 0)) return;
  switch (spoil) {
    case SPOIL_negative_count:
      a.count = -1;
      for (int i = 0; i < a.size; ++i) a.counts[i] = -1;
      break;
    case SPOIL_null_type:
      a.type = MPI_DATATYPE_NULL;
      break;
    case SPOIL_null_op:
      a.op = MPI_OP_NULL;
      break;
    case SPOIL_root_too_high:
      a.root = a.size + 1;
      break;
    case SPOIL_root_too_low:
      a.root = -99;
      break;
    case SPOIL_same_buffers:
      a.from = a.to;
      break;
    default:
      a.comm = MPI_COMM_NULL;
  }
  int code = act(&a, name);
  see("%s: %s", name, class_of(code));
}

void step_collective(Rng* rng) {
  static const int counts[] = {0, 1, 24, 30, 5000, 30000};
  static const CommKind comms[] = {BASE, HANDLED, REVERSED, RACES, ALONE};
  CommKind comm = comms[rng_below(rng, 5)];
  Act a = {.which = (Collective)rng_below(rng, COLLECTIVE_COUNT),
           .count = counts[rng_below(rng, 6)]};
  a.type = MPI_INT;
  a.op = MPI_SUM;
  a.comm = here.comm[comm];
  a.root = comm == ALONE ? 0 : rng_range(rng, 0, here.ranks - 1);
  act_make(&a, rng_next(rng));
  for (int rank = 0; rank < here.ranks; ++rank) {
    int failures = rng_chance(rng, 40) ? rng_range(rng, 1, 2) : 0;
    for (int i = 0; i < failures; ++i) {
      Spoil spoil = (Spoil)rng_below(rng, SPOIL_COUNT);
      while (!applies(a.which, spoil)) spoil = (Spoil)rng_below(rng, SPOIL_COUNT);
      if (rank == here.rank) act_wrongly(&a, spoil);
    }
  }
  jitter();
  int code = act(&a, collective_names[a.which]);
  see("%s of %d: %s, saw %llx", collective_names[a.which], a.count, class_of(code),
      (unsigned long long)act_seen(&a));
  free(a.from);
  free(a.to);
}

// ---- communicators -----------------------------------------------------------------------------

static void wrong_constructor(int which) {
  MPI_Comm base = here.comm[BASE], made = MPI_COMM_NULL;
  int code = MPI_SUCCESS, dims[2] = {here.ranks + 1, 2}, periods[2] = {0, 0};
  MPI_Win win = MPI_WIN_NULL;
  char name[40];
  snprintf(name, sizeof name, "wrong constructor %d", which);
  if (left_out(name)) return;
  doing(name);
  switch (which) {
    case 0:
      code = MPI_Comm_dup(MPI_COMM_NULL, &made);
      break;
    case 1:
      code = MPI_Comm_split(base, -77, 0, &made);
      break;
    case 2:
      code = MPI_Comm_create(base, MPI_GROUP_NULL, &made);
      break;
    case 3:
      code = MPI_Cart_create(base, 2, dims, periods, 0, &made);
      break;
    case 4:
      code = MPI_Cart_create(base, -1, dims, periods, 0, &made);
      break;
    case 5:
      code = MPI_Comm_free(&made);
      break;
    case 6:
      code = MPI_Win_create(NULL, -5, 1, MPI_INFO_NULL, base, &win);
      break;
    default:
      code = MPI_Comm_split(MPI_COMM_NULL, 0, 0, &made);
  }
  see("%s: %s, %s", name, class_of(code), made == MPI_COMM_NULL ? "nothing made" : "made");
}

// Starts a message on `comm`; the caller of this function frees `comm` while the message is under
// way. If `handled`, errors on `comm` go to the program's error handler.
static void across_free(Rng* rng, MPI_Comm comm, bool handled) {
  Content content = content_make(rng, !left_out("too short on a freed communicator"));
  int source = rng_range(rng, 0, here.ranks - 1);
  int target = (source + rng_range(rng, 1, here.ranks - 1)) % here.ranks;
  if (handled) MPI_Comm_set_errhandler(comm, here.noting);
  if (here.rank == source) {
    Op* op = op_send(&content, "send on a freed communicator");
    MPI_Isend(op->buffer.base, (int)op->items, op->layout->type, target, 1, comm, &op->request);
    op_pend(op);
  }
  if (here.rank == target) {
    Op* op = op_recv(&content, "recv on a freed communicator");
    MPI_Irecv(op->buffer.base, (int)op->items, op->layout->type, source, 1, comm, &op->request);
    op_pend(op);
  }
}

void step_communicator(Rng* rng) {
  MPI_Comm made = MPI_COMM_NULL, base = here.comm[BASE];
  doing("constructors");
  for (int rank = 0; rank < here.ranks; ++rank) {
    int which = rng_range(rng, 0, 7);
    if (rng_chance(rng, 40) && rank == here.rank) wrong_constructor(which);
  }
  bool split = rng_chance(rng, 50);
  int code = split ? MPI_Comm_split(base, 0, here.rank, &made) : MPI_Comm_dup(base, &made);
  see("constructor: %s", class_of(code));
  across_free(rng, made, rng_chance(rng, 50));
  if (rng_chance(rng, 50)) MPI_Barrier(made);
  code = MPI_Comm_free(&made);
  see("Comm_free: %s, %s", class_of(code), made == MPI_COMM_NULL ? "null" : "kept");
}
