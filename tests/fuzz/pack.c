// SPDX-License-Identifier: BSD-3-Clause
//
// Each rank calls MPI_Pack with the sender's type of a message and MPI_Unpack with the receiver's
// type, on the data of the message. The pair of calls runs several times, because Manyhands leaves
// the first call with a type to the MPI library.
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { TIMES = 3, CANARIES = 64 };

typedef struct {
  Player* player;
  const Message* message;
  Layout *from, *to;
  size_t items, first_items;
  Buffer source;
  unsigned char* stream;
  int room, used;
} Packing;

static void try(const Packing* p, int code, const char* call) {
  if (code != MPI_SUCCESS) fail(p->player, p->message, "%s returned %d", call, code);
}

static int room_for(const Packing* p, size_t items) {
  int room = 0;
  try(p, MPI_Pack_size((int)items, p->from->type, MPI_COMM_WORLD, &room), "MPI_Pack_size");
  return room;
}

static void pack(Packing* p) {
  memset(p->stream, 0x5a, (size_t)p->room + CANARIES);
  p->used = 0;
  try(p,
      MPI_Pack(p->source.base, (int)p->first_items, p->from->type, p->stream, p->room, &p->used,
               MPI_COMM_WORLD),
      "MPI_Pack");
  try(p,
      MPI_Pack(p->source.base + (ptrdiff_t)p->first_items * p->from->extent,
               (int)(p->items - p->first_items), p->from->type, p->stream, p->room, &p->used,
               MPI_COMM_WORLD),
      "MPI_Pack");
  for (int i = 0; i < CANARIES; ++i) {
    if (p->stream[p->room + i] != 0x5a) fail(p->player, p->message, "MPI_Pack wrote too far");
  }
}

static void unpack(const Packing* p, uint64_t guard) {
  const size_t items = p->message->elements / (size_t)p->to->elements;
  Buffer target = buffer_make(p->to, items + p->message->extra_items, guard);
  int position = 0;
  try(p,
      MPI_Unpack(p->stream, p->used, &position, target.base, (int)items, p->to->type,
                 MPI_COMM_WORLD),
      "MPI_Unpack");
  ptrdiff_t first = 0;
  const size_t wrong =
      buffer_wrong(&target, p->to, guard, p->message->id, items * p->to->size, &first);
  if (wrong != 0) {
    fail(p->player, p->message, "%zu wrong bytes unpacked, first at %td (%s packed, %s unpacked)",
         wrong, first, p->from->name, p->to->name);
  }
  buffer_free(&target);
}

void play_pack(Player* player, const Step* step) {
  const Message* m = &step->messages[0];
  Packing p = {.player = player, .message = m};
  p.from = layout_make(m->send_layout, m->element, m->send_contiguous);
  p.to = layout_make(m->recv_layout, m->element, m->recv_contiguous);
  p.items = m->elements / (size_t)p.from->elements;
  p.first_items = p.items / 3;
  p.source = buffer_make(p.from, p.items, m->id + 1);
  buffer_put(&p.source, p.from, m->id, m->bytes);
  p.room = room_for(&p, p.first_items) + room_for(&p, p.items - p.first_items);
  p.stream = malloc((size_t)p.room + CANARIES);
  for (int i = 0; i < TIMES; ++i) {
    pack(&p);
    unpack(&p, m->id + 2 + (uint64_t)i);
  }
  ptrdiff_t first = 0;
  if (buffer_wrong(&p.source, p.from, m->id + 1, m->id, m->bytes, &first) != 0) {
    fail(player, m, "packing wrote to its source at %td (%s)", first, p.from->name);
  }
  player->hash += mix2(m->id, m->bytes);
  free(p.stream);
  buffer_free(&p.source);
  layout_free(p.from);
  layout_free(p.to);
}
