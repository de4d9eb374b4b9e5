// SPDX-License-Identifier: BSD-3-Clause
// The halo exchange. See halo.h for the content of a message.
//
// Tags: the tag of a message encodes the axis and the *sender's* side. The tag distinguishes the
// two messages between ranks that are neighbours on both sides (periodic, one or two processes).
#include "halo.h"

#include <stdlib.h>
#include <string.h>

static int tag_of(int axis, int side) { return 2 * axis + side; }
static int other(int side) { return side == SIDE_LOW ? SIDE_HIGH : SIDE_LOW; }

static bool has_neighbour(const struct halo* halo, int axis, int side) {
  return halo->box->neighbour[axis][side] != MPI_PROC_NULL;
}

// --- the place of a plane in memory

// Two functions return the axes within a plane that is perpendicular to `axis`. The inner axis runs
// faster in memory.
static int inner_axis(int axis) { return axis == AXIS_X ? AXIS_Y : AXIS_X; }
static int outer_axis(int axis) { return axis == AXIS_Z ? AXIS_Y : AXIS_Z; }

static size_t plane_at(const struct grid* g, int var, int axis, int index) {
  int cell[AXES] = {0, 0, 0};
  cell[axis] = index;
  return grid_at(g, var, cell[AXIS_X], cell[AXIS_Y], cell[AXIS_Z]);
}

static int outermost(const struct grid* g, int axis, int side) {
  return side == SIDE_LOW ? 0 : g->cells[axis] - 1;
}
static int ghost(const struct grid* g, int axis, int side) {
  return side == SIDE_LOW ? -1 : g->cells[axis];
}

// --- HALO_PACKED: the program copies planes

static void pack_row(double* restrict out, const double* restrict in, size_t stride, int n) {
  if (stride == 1) {
    memcpy(out, in, (size_t)n * sizeof(double));
    return;
  }
  for (int i = 0; i < n; ++i) out[i] = in[(size_t)i * stride];
}

static void unpack_row(double* restrict out, const double* restrict in, size_t stride, int n) {
  if (stride == 1) {
    memcpy(out, in, (size_t)n * sizeof(double));
    return;
  }
  for (int i = 0; i < n; ++i) out[(size_t)i * stride] = in[i];
}

static void pack(double* message, const struct grid* g, int axis, int side) {
  const int inner = inner_axis(axis), outer = outer_axis(axis);
  for (int var = 0; var < g->vars; ++var) {
    const double* plane = g->now + plane_at(g, var, axis, outermost(g, axis, side));
    for (int row = 0; row < g->cells[outer]; ++row) {
      pack_row(message, plane + (size_t)row * g->stride[outer], g->stride[inner], g->cells[inner]);
      message += g->cells[inner];
    }
  }
}

static void unpack(struct grid* g, const double* message, int axis, int side) {
  const int inner = inner_axis(axis), outer = outer_axis(axis);
  for (int var = 0; var < g->vars; ++var) {
    double* plane = g->now + plane_at(g, var, axis, ghost(g, axis, side));
    for (int row = 0; row < g->cells[outer]; ++row) {
      unpack_row(plane + (size_t)row * g->stride[outer], message, g->stride[inner],
                 g->cells[inner]);
      message += g->cells[inner];
    }
  }
}

static void pack_timed(struct halo* halo, const struct grid* grid, int axis, int side) {
  if (halo->mode != HALO_PACKED || !has_neighbour(halo, axis, side)) return;
  const double start = MPI_Wtime();
  pack(halo->out[axis][side], grid, axis, side);
  halo->pack_seconds += MPI_Wtime() - start;
}

static void unpack_timed(struct halo* halo, struct grid* grid, int axis, int side) {
  if (halo->mode != HALO_PACKED || !has_neighbour(halo, axis, side)) return;
  const double start = MPI_Wtime();
  unpack(grid, halo->in[axis][side], axis, side);
  halo->pack_seconds += MPI_Wtime() - start;
}

// --- HALO_TYPES: the MPI library copies planes

// Returns the type of a plane of all variables, perpendicular to `axis`, as vectors of vectors:
// cells of a row, rows of the plane, planes of the variables. The type starts at the plane's first
// cell.
static MPI_Datatype plane_type(const struct grid* g, int axis) {
  const int inner = inner_axis(axis), outer = outer_axis(axis);
  const MPI_Aint cell = (MPI_Aint)sizeof(double);
  MPI_Datatype row, plane, all;
  MPI_Type_vector(g->cells[inner], 1, (int)g->stride[inner], MPI_DOUBLE, &row);
  MPI_Type_create_hvector(g->cells[outer], 1, (MPI_Aint)g->stride[outer] * cell, row, &plane);
  MPI_Type_create_hvector(g->vars, 1, (MPI_Aint)g->var_stride * cell, plane, &all);
  MPI_Type_commit(&all);
  MPI_Type_free(&row);
  MPI_Type_free(&plane);
  return all;
}

// --- messages: one to and one from each neighbour

struct message {
  void* buffer;
  int count;
  MPI_Datatype type;
};

// Returns an empty message, for a side of the grid without a neighbour. The caller exchanges it
// with MPI_PROC_NULL.
static struct message nothing(void) { return (struct message){NULL, 0, MPI_DOUBLE}; }

static struct message outgoing(const struct halo* h, struct grid* g, int axis, int side) {
  if (!has_neighbour(h, axis, side)) return nothing();
  if (h->mode == HALO_TYPES) {
    double* plane = g->now + plane_at(g, 0, axis, outermost(g, axis, side));
    return (struct message){plane, 1, h->plane_type[axis]};
  }
  return (struct message){h->out[axis][side], (int)h->plane_doubles[axis], MPI_DOUBLE};
}

static struct message incoming(const struct halo* h, struct grid* g, int axis, int side) {
  if (!has_neighbour(h, axis, side)) return nothing();
  if (h->mode == HALO_TYPES) {
    double* plane = g->now + plane_at(g, 0, axis, ghost(g, axis, side));
    return (struct message){plane, 1, h->plane_type[axis]};
  }
  return (struct message){h->in[axis][side], (int)h->plane_doubles[axis], MPI_DOUBLE};
}

static void start_receive(struct halo* halo, struct grid* grid, int axis, int side,
                          MPI_Request* request) {
  const struct message m = incoming(halo, grid, axis, side);
  const double start = MPI_Wtime();
  MPI_Irecv(m.buffer, m.count, m.type, halo->box->neighbour[axis][side], tag_of(axis, other(side)),
            halo->box->comm, request);
  halo->mpi_seconds += MPI_Wtime() - start;
}

static void start_send(struct halo* halo, struct grid* grid, int axis, int side,
                       MPI_Request* request) {
  const struct message m = outgoing(halo, grid, axis, side);
  const double start = MPI_Wtime();
  MPI_Isend(m.buffer, m.count, m.type, halo->box->neighbour[axis][side], tag_of(axis, side),
            halo->box->comm, request);
  halo->mpi_seconds += MPI_Wtime() - start;
}

// Exchanges all planes with nonblocking messages. Posts all receives first, so that no message
// arrives unexpected if the neighbours are in the same step. Sends each message right after packing
// it. Unpacks after all messages have arrived (bulk synchronous).
static void exchange_waitall(struct halo* halo, struct grid* grid) {
  enum { kRequests = 2 * AXES * SIDES };
  MPI_Request requests[kRequests];
  MPI_Status
      statuses[kRequests];  // unread; MPICH 4's MPI_STATUSES_IGNORE draws a false GCC warning
  int n = 0;
  for (int axis = 0; axis < AXES; ++axis) {
    for (int side = 0; side < SIDES; ++side) start_receive(halo, grid, axis, side, &requests[n++]);
  }
  for (int axis = 0; axis < AXES; ++axis) {
    for (int side = 0; side < SIDES; ++side) {
      pack_timed(halo, grid, axis, side);
      start_send(halo, grid, axis, side, &requests[n++]);
    }
  }
  const double start = MPI_Wtime();
  MPI_Waitall(n, requests, statuses);
  halo->mpi_seconds += MPI_Wtime() - start;
  for (int axis = 0; axis < AXES; ++axis) {
    for (int side = 0; side < SIDES; ++side) unpack_timed(halo, grid, axis, side);
  }
}

// Sends the plane at `side` of `axis` and receives the ghost plane of the axis's other side. All
// ranks do so at the same time; MPI_Sendrecv prevents a deadlock.
static void shift(struct halo* halo, struct grid* grid, int axis, int side) {
  const int* neighbour = halo->box->neighbour[axis];
  pack_timed(halo, grid, axis, side);
  const struct message out = outgoing(halo, grid, axis, side);
  const struct message in = incoming(halo, grid, axis, other(side));
  const double start = MPI_Wtime();
  MPI_Sendrecv(out.buffer, out.count, out.type, neighbour[side], tag_of(axis, side), in.buffer,
               in.count, in.type, neighbour[other(side)], tag_of(axis, side), halo->box->comm,
               MPI_STATUS_IGNORE);
  halo->mpi_seconds += MPI_Wtime() - start;
  unpack_timed(halo, grid, axis, other(side));
}

void halo_exchange(struct halo* halo, struct grid* grid) {
  if (halo->exchange == EXCHANGE_WAITALL) {
    exchange_waitall(halo, grid);
    return;
  }
  for (int axis = 0; axis < AXES; ++axis) {
    for (int side = 0; side < SIDES; ++side) shift(halo, grid, axis, side);
  }
}

// --- creation and end of a halo

static bool create_buffers(struct halo* halo) {
  bool ok = true;
  for (int axis = 0; axis < AXES; ++axis) {
    for (int side = 0; side < SIDES; ++side) {
      if (!has_neighbour(halo, axis, side)) continue;
      const size_t bytes = halo->plane_doubles[axis] * sizeof(double);
      halo->out[axis][side] = calloc(1, bytes);
      halo->in[axis][side] = calloc(1, bytes);
      ok = ok && halo->out[axis][side] != NULL && halo->in[axis][side] != NULL;
    }
  }
  return ok;
}

bool halo_create(const struct options* options, const struct box* box, const struct grid* grid,
                 struct halo* halo) {
  *halo = (struct halo){.mode = options->halo, .exchange = options->exchange, .box = box};
  for (int axis = 0; axis < AXES; ++axis) {
    halo->plane_type[axis] = MPI_DATATYPE_NULL;
    halo->plane_doubles[axis] = (size_t)grid->cells[inner_axis(axis)] *
                                (size_t)grid->cells[outer_axis(axis)] * (size_t)grid->vars;
  }
  if (halo->mode == HALO_TYPES) {
    for (int axis = 0; axis < AXES; ++axis) halo->plane_type[axis] = plane_type(grid, axis);
    return true;
  }
  if (create_buffers(halo)) return true;
  halo_free(halo);
  return false;
}

void halo_free(struct halo* halo) {
  for (int axis = 0; axis < AXES; ++axis) {
    if (halo->mode == HALO_TYPES) MPI_Type_free(&halo->plane_type[axis]);
    for (int side = 0; side < SIDES; ++side) {
      free(halo->out[axis][side]);
      free(halo->in[axis][side]);
      halo->out[axis][side] = halo->in[axis][side] = NULL;
    }
  }
}

void halo_clear_times(struct halo* halo) { halo->pack_seconds = halo->mpi_seconds = 0.0; }

size_t halo_bytes_sent(const struct halo* halo) {
  size_t doubles = 0;
  for (int axis = 0; axis < AXES; ++axis) {
    for (int side = 0; side < SIDES; ++side) {
      if (has_neighbour(halo, axis, side)) doubles += halo->plane_doubles[axis];
    }
  }
  return doubles * sizeof(double);
}

size_t halo_largest_message(const struct halo* halo) {
  size_t doubles = 0;
  for (int axis = 0; axis < AXES; ++axis) {
    const bool used = has_neighbour(halo, axis, SIDE_LOW) || has_neighbour(halo, axis, SIDE_HIGH);
    if (used && halo->plane_doubles[axis] > doubles) doubles = halo->plane_doubles[axis];
  }
  return doubles * sizeof(double);
}
