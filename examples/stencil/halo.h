// SPDX-License-Identifier: BSD-3-Clause
// Halo exchange: bulk synchronous, with message aggregation over all variables.
//
// A message has the plane of variable 0, then of variable 1, and so on; within a plane x runs
// fastest, then y, then z. A rank sends one message to each neighbour in a step. The message has 8
// bytes * variables * cells of the plane.
// There are two ways to make a message. With HALO_PACKED, the program copies the planes into and
// out of a buffer. With HALO_TYPES, an MPI datatype describes the planes in place, and the MPI
// library copies them.
#ifndef STENCIL_HALO_H
#define STENCIL_HALO_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "grid.h"
#include "options.h"

struct halo {
  enum halo_mode mode;
  enum exchange_mode exchange;
  const struct box* box;
  size_t plane_doubles[AXES];        // doubles of a message along the axis, all variables
  MPI_Datatype plane_type[AXES];     // HALO_TYPES: one plane of every variable
  double* out[AXES][SIDES];          // HALO_PACKED: messages to send, NULL without a neighbour
  double* in[AXES][SIDES];           // HALO_PACKED: messages received, NULL without a neighbour
  double pack_seconds, mpi_seconds;  // since halo_clear_times()
};

// Allocates the buffers or datatypes of the messages. Returns false when memory is short; `halo` is
// then empty.
bool halo_create(const struct options* options, const struct box* box, const struct grid* grid,
                 struct halo* halo);
void halo_free(struct halo* halo);

// Collective. Fills each ghost plane that has a neighbour with the outermost plane of this
// neighbour.
void halo_exchange(struct halo* halo, struct grid* grid);

void halo_clear_times(struct halo* halo);

// Two functions return the bytes that this rank sends in one exchange, and the bytes of its largest
// message.
size_t halo_bytes_sent(const struct halo* halo);
size_t halo_largest_message(const struct halo* halo);

#endif
