// SPDX-License-Identifier: BSD-3-Clause
//
// Steps of the error fuzzer that send messages. Several messages in a row have one of two tags
// each, and some are longer than their receives. Messages of several ranks race for receives from
// any source; the order of receiving does not change the trace. The last step of a round sends
// messages without errors.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

enum { TAG_ABSENT = 8000, TAG_CLEAN = 8100, TAG_RACE = 100 };

typedef enum { SEND, ISEND, SSEND, ISSEND, SEND_INIT, SSEND_INIT, SENDRECV, SENDS } SendWay;
typedef enum {
  RECV,
  IRECV,
  RECV_INIT,
  PROBE,
  IPROBE,
  MPROBE,
  IMPROBE,
  RECVSENDRECV,
  RECVS
} RecvWay;
static const char* const send_names[] = {"Send",      "Isend",      "Ssend",   "Issend",
                                         "Send_init", "Ssend_init", "Sendrecv"};
static const char* const recv_names[] = {"Recv",   "Irecv",  "Recv_init", "Probe",
                                         "Iprobe", "Mprobe", "Improbe",   "Sendrecv"};

typedef struct {
  SendWay send;
  RecvWay recv;
  Content content;
  int tag;
  bool any_tag;
} Message;

static Message message_make(Rng* rng, bool to_itself) {
  Message message = {.send = (SendWay)rng_below(rng, SENDS),
                     .recv = (RecvWay)rng_below(rng, RECVS)};
  message.content = content_make(rng, true);
  message.tag = rng_range(rng, 0, 1);
  message.any_tag = rng_chance(rng, 15);
  bool too_short = message.recv == RECV_INIT && message.content.too_long;
  if (too_short && left_out("persistent receives that are too short")) message.recv = IRECV;
  if (to_itself) {
    message.send = rng_chance(rng, 50) ? ISEND : ISSEND;
    message.recv = IRECV;
  }
  return message;
}

// Starts the persistent request of `op`, if the call that made it returned success. `code` is what
// that call returned. Returns the error code of the first call that failed, else success.
static int start_made(int code, Op* op) {
  op->persistent = true;
  return code == MPI_SUCCESS ? MPI_Start(&op->request) : code;
}

static void send_one(const Message* message, int to, MPI_Comm comm, const char* where, int index) {
  Op* op = op_send(&message->content, "send %d to %d %s tag %d by %s", index, to, where,
                   message->tag, send_names[message->send]);
  const void* base = op->buffer.base;
  int items = (int)op->items, tag = message->tag, code = MPI_SUCCESS;
  MPI_Datatype type = op->layout->type;
  bool started = true;
  doing(send_names[message->send]);
  switch (message->send) {
    case ISEND:
      code = MPI_Isend(base, items, type, to, tag, comm, &op->request);
      break;
    case ISSEND:
      code = MPI_Issend(base, items, type, to, tag, comm, &op->request);
      break;
    case SEND_INIT:
      code = start_made(MPI_Send_init(base, items, type, to, tag, comm, &op->request), op);
      break;
    case SSEND_INIT:
      code = start_made(MPI_Ssend_init(base, items, type, to, tag, comm, &op->request), op);
      break;
    default:
      started = false;
      if (message->send == SEND) code = MPI_Send(base, items, type, to, tag, comm);
      if (message->send == SSEND) code = MPI_Ssend(base, items, type, to, tag, comm);
      if (message->send == SENDRECV) {
        code = MPI_Sendrecv(base, items, type, to, tag, NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm,
                            MPI_STATUS_IGNORE);
      }
  }
  if (started && code == MPI_SUCCESS) {
    op_pend(op);
  } else {
    op_over(op, code, NULL);
  }
}

// Probes for the message of `op` by the call that `way` names. Returns false if the probe failed.
static bool probed(const Op* op, RecvWay way, int from, int tag, MPI_Comm comm,
                   MPI_Message* message, MPI_Status* status) {
  int flag = 1, code = MPI_SUCCESS;
  do {
    if (way == PROBE) code = MPI_Probe(from, tag, comm, status);
    if (way == IPROBE) code = MPI_Iprobe(from, tag, comm, &flag, status);
    if (way == MPROBE) code = MPI_Mprobe(from, tag, comm, message, status);
    if (way == IMPROBE) code = MPI_Improbe(from, tag, comm, &flag, message, status);
  } while (code == MPI_SUCCESS && !flag);
  int bytes = -1;
  if (code == MPI_SUCCESS) MPI_Get_count(status, MPI_BYTE, &bytes);
  see("%s: probe %s from %d tag %d bytes %d", op->name, class_of(code), status->MPI_SOURCE,
      status->MPI_TAG, bytes);
  return code == MPI_SUCCESS;
}

static int recv_probed(Op* op, RecvWay way, int from, int tag, MPI_Comm comm, MPI_Status* status,
                       bool* started) {
  MPI_Message message = MPI_MESSAGE_NULL;
  void* base = op->buffer.base;
  int items = (int)op->items;
  MPI_Datatype type = op->layout->type;
  if (!probed(op, way, from, tag, comm, &message, status)) return MPI_SUCCESS;
  *started = way == IPROBE || way == IMPROBE;
  tag = status->MPI_TAG;
  if (way == PROBE) return MPI_Recv(base, items, type, from, tag, comm, status);
  if (way == IPROBE) return MPI_Irecv(base, items, type, from, tag, comm, &op->request);
  if (way == MPROBE) return MPI_Mrecv(base, items, type, &message, status);
  return MPI_Imrecv(base, items, type, &message, &op->request);
}

static void recv_one(const Message* message, int from, MPI_Comm comm, const char* where,
                     int index) {
  Op* op = op_recv(&message->content, "recv %d from %d %s tag %d%s by %s%s", index, from, where,
                   message->tag, message->any_tag ? " (any)" : "", recv_names[message->recv],
                   message->content.too_long ? ", too short" : "");
  void* base = op->buffer.base;
  int items = (int)op->items, code = MPI_SUCCESS;
  int tag = message->any_tag ? MPI_ANY_TAG : message->tag;
  MPI_Datatype type = op->layout->type;
  MPI_Status status = {0};
  bool started = false;
  doing(op->name);
  here.blocking = message->recv == RECV || message->recv == PROBE || message->recv == RECVSENDRECV;
  switch (message->recv) {
    case RECV:
      code = MPI_Recv(base, items, type, from, tag, comm, &status);
      break;
    case IRECV:
      started = true;
      code = MPI_Irecv(base, items, type, from, tag, comm, &op->request);
      break;
    case RECV_INIT:
      started = true;
      code = start_made(MPI_Recv_init(base, items, type, from, tag, comm, &op->request), op);
      break;
    case RECVSENDRECV:
      code = MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, base, items, type, from, tag, comm,
                          &status);
      break;
    default:
      code = recv_probed(op, message->recv, from, tag, comm, &status, &started);
  }
  here.blocking = false;
  if (started && code == MPI_SUCCESS) {
    op_pend(op);
  } else {
    op_over(op, code, &status);
  }
}

void step_burst(Rng* rng) {
  static const char* const where[] = {"base", "handled", "reversed"};
  CommKind comm = (CommKind)rng_below(rng, 3);
  int source = rng_range(rng, 0, here.ranks - 1), target = rng_range(rng, 0, here.ranks - 1);
  if (source == target && rng_chance(rng, 80)) target = (source + 1) % here.ranks;
  int count = rng_range(rng, 1, 6);
  for (int i = 0; i < count; ++i) {
    Message message = message_make(rng, source == target);
    MPI_Comm on = here.comm[comm];
    if (here.rank == source || here.rank == target) jitter();
    if (here.rank == source) send_one(&message, rank_in(comm, target), on, where[comm], i);
    if (here.rank == target) recv_one(&message, rank_in(comm, source), on, where[comm], i);
  }
}

// ---- probes ------------------------------------------------------------------------------------

static void probe_nothing(Rng* rng) {
  MPI_Status status;
  MPI_Message message = MPI_MESSAGE_NULL;
  int flag = -1, from = rng_chance(rng, 50) ? MPI_ANY_SOURCE : rng_range(rng, 0, here.ranks - 1);
  int code = MPI_Iprobe(from, TAG_ABSENT, here.comm[BASE], &flag, &status);
  see("Iprobe of nothing: %s, flag %d", class_of(code), flag);
  code = MPI_Improbe(from, TAG_ABSENT, here.comm[BASE], &flag, &message, &status);
  see("Improbe of nothing: %s, flag %d, message %s", class_of(code), flag,
      message == MPI_MESSAGE_NULL ? "null" : "there");
}

static void see_message(const char* what, int code, MPI_Message message, const MPI_Status* status) {
  int bytes = -1;
  MPI_Get_count(status, MPI_BYTE, &bytes);
  see("%s: %s from %d tag %d bytes %d, message %s", what, class_of(code), status->MPI_SOURCE,
      status->MPI_TAG, bytes,
      message == MPI_MESSAGE_NULL      ? "null"
      : message == MPI_MESSAGE_NO_PROC ? "from nobody"
                                       : "there");
}

static void probe_nobody(void) {
  MPI_Status status = {0};
  MPI_Message message = MPI_MESSAGE_NULL;
  int code = MPI_Mprobe(MPI_PROC_NULL, 3, here.comm[BASE], &message, &status);
  see_message("Mprobe of nobody", code, message, &status);
  char nothing[128];
  code = MPI_Mrecv(nothing, 128, MPI_BYTE, &message, &status);
  see_message("Mrecv from nobody", code, message, &status);
  code = MPI_Probe(MPI_PROC_NULL, 3, here.comm[BASE], &status);
  see_message("Probe of nobody", code, MPI_MESSAGE_NULL, &status);
}

static void recv_null_message(Rng* rng) {
  MPI_Status status = {0};
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  char nothing[128];
  bool start = rng_chance(rng, 50);
  if (left_out(start ? "Imrecv of a null message" : "Mrecv of a null message")) return;
  int code = start ? MPI_Imrecv(nothing, 128, MPI_BYTE, &message, &request)
                   : MPI_Mrecv(nothing, 128, MPI_BYTE, &message, &status);
  see("%s of a null message: %s, %s", start ? "Imrecv" : "Mrecv", class_of(code),
      request == MPI_REQUEST_NULL ? "null" : "kept");
}

void step_probed(Rng* rng) {
  int what = rng_range(rng, 0, 2), who = rng_range(rng, 0, here.ranks - 1);
  if (here.rank != who) return;
  if (what == 0) probe_nothing(rng);
  if (what == 1) probe_nobody();
  if (what == 2) recv_null_message(rng);
}

// ---- races for receives from any source --------------------------------------------------------

typedef struct {
  int target, each, tag;
  bool any_tag, start;
  RecvWay way;
  uint64_t id;
  size_t room, most;
  size_t bytes[64];  // size of every message, by sender
} Race;

static void race_send(const Race* race, Rng* local) {
  for (int i = 0; i < race->each; ++i) {
    Content content = {.elements = race->bytes[here.rank],
                       .id = mix2(race->id, (uint64_t)(here.rank * 1000 + i))};
    content.room = content.elements;
    Op* op = op_send(&content, "race: send %d", i);
    jitter();
    if (rng_chance(local, 50)) {
      MPI_Isend(op->buffer.base, (int)op->items, MPI_BYTE, race->target, race->tag,
                here.comm[RACES], &op->request);
      op_pend(op);
    } else {
      int code = MPI_Send(op->buffer.base, (int)op->items, MPI_BYTE, race->target, race->tag,
                          here.comm[RACES]);
      op_over(op, code, NULL);
    }
  }
}

typedef struct {
  unsigned char* buffer;
  MPI_Request request;
  MPI_Status status;
  int code;
} Taken;

// Receives the next message of a race: from any source, by the call that race->way names. With
// IRECV, the receive is only started.
static void race_recv(const Race* race, Taken* taken) {
  int tag = race->any_tag ? MPI_ANY_TAG : race->tag, room = (int)race->room;
  MPI_Comm comm = here.comm[RACES];
  MPI_Message message;
  taken->request = MPI_REQUEST_NULL;
  doing(recv_names[race->way]);
  if (race->way == RECV) {
    taken->code =
        MPI_Recv(taken->buffer, room, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &taken->status);
  } else if (race->way == IRECV) {
    MPI_Irecv(taken->buffer, room, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &taken->request);
  } else if (race->way == PROBE) {
    MPI_Probe(MPI_ANY_SOURCE, tag, comm, &taken->status);
    taken->code = MPI_Recv(taken->buffer, room, MPI_BYTE, taken->status.MPI_SOURCE,
                           taken->status.MPI_TAG, comm, &taken->status);
  } else {
    MPI_Mprobe(MPI_ANY_SOURCE, tag, comm, &message, &taken->status);
    taken->code = MPI_Mrecv(taken->buffer, room, MPI_BYTE, &message, &taken->status);
  }
}

static void race_see(const Race* race, const Taken* taken, int* so_far) {
  int from = taken->status.MPI_SOURCE, bytes = -1;
  if (from < 0 || from >= here.ranks) {
    see("race: %s from %d", class_of(taken->code), from);
    return;
  }
  int number = so_far[from]++;
  if (taken->code != MPI_SUCCESS) {
    see("race: %s of message %d from %d tag %d", class_of(taken->code), number, from,
        taken->status.MPI_TAG);
    return;
  }
  MPI_Get_count(&taken->status, MPI_BYTE, &bytes);
  unsigned char* wanted = malloc(race->room + 1);
  payload(mix2(race->id, (uint64_t)(from * 1000 + number)), 0, wanted, race->bytes[from]);
  bool same =
      race->bytes[from] <= race->room && memcmp(wanted, taken->buffer, race->bytes[from]) == 0;
  see("race: message %d from %d tag %d bytes %d, %s", number, from, taken->status.MPI_TAG, bytes,
      same ? "as it must be" : "wrong");
  free(wanted);
}

static void race_take(const Race* race) {
  int count = race->each * (here.ranks - 1), so_far[64] = {0};
  Taken* all = calloc((size_t)count, sizeof *all);
  for (int i = 0; i < count; ++i) {
    all[i].buffer = malloc(race->most + 1);  // Open MPI may overrun: see op_fill()
    jitter();
    race_recv(race, &all[i]);
  }
  for (int i = 0; i < count; ++i) {
    if (all[i].request != MPI_REQUEST_NULL) all[i].code = MPI_Wait(&all[i].request, &all[i].status);
  }
  for (int i = 0; i < count; ++i) {
    race_see(race, &all[i], so_far);
    free(all[i].buffer);
  }
  free(all);
}

void step_race(Rng* rng) {
  static const RecvWay ways[] = {RECV, IRECV, PROBE, MPROBE};
  Race race = {.target = rng_range(rng, 0, here.ranks - 1), .each = rng_range(rng, 1, 4)};
  race.tag = TAG_RACE + here.step;
  race.any_tag = rng_chance(rng, 40);
  race.way = ways[rng_below(rng, 4)];
  race.id = rng_next(rng);
  for (int i = 0; i < here.ranks && i < 64; ++i) {
    race.bytes[i] = pick_bytes(rng);
    bool too_long = rng_chance(rng, 25);
    if (race.bytes[i] > race.most) race.most = race.bytes[i];
    if (!too_long && race.bytes[i] > race.room) race.room = race.bytes[i];
  }
  if (here.rank == race.target) {
    race_take(&race);
  } else {
    race_send(&race, &here.local);
  }
  doing("Barrier after a race");
  if (race.any_tag) MPI_Barrier(here.comm[RACES]);
}

// ---- the last step of a round, without errors --------------------------------------------------

static void clean_pair(Rng* rng, int from, int to, CommKind comm) {
  for (int i = 0; i < 2; ++i) {
    size_t bytes = i == 0 ? 66000 + rng_below(rng, 100000) : rng_below(rng, 200);
    Content content = content_of(rng, bytes);
    int tag = rng_range(rng, 0, 1);
    if (here.rank == from) {
      Op* op = op_send(&content, "clean: send %d to %d on %d", i, to, comm);
      int code = MPI_Isend(op->buffer.base, (int)op->items, op->layout->type, rank_in(comm, to),
                           tag, here.comm[comm], &op->request);
      if (code == MPI_SUCCESS)
        op_pend(op);
      else
        op_over(op, code, NULL);
    }
    if (here.rank == to) {
      Op* op = op_recv(&content, "clean: recv %d from %d on %d", i, from, comm);
      int code = MPI_Irecv(op->buffer.base, (int)op->items, op->layout->type, rank_in(comm, from),
                           tag, here.comm[comm], &op->request);
      if (code == MPI_SUCCESS)
        op_pend(op);
      else
        op_over(op, code, NULL);
    }
  }
}

static void clean_collectives(CommKind comm) {
  int mine = here.rank + 1, sum = -1, first = here.rank;
  doing("clean: collectives");
  int code = MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, here.comm[comm]);
  see("clean: Allreduce on %d: %s %d", comm, class_of(code), sum);
  code = MPI_Bcast(&first, 1, MPI_INT, rank_in(comm, 0), here.comm[comm]);
  see("clean: Bcast on %d: %s %d", comm, class_of(code), first);
  code = MPI_Barrier(here.comm[comm]);
  see("clean: Barrier on %d: %s", comm, class_of(code));
}

void step_clean(Rng* rng) {
  for (int from = 0; from < here.ranks; ++from) {
    for (int to = 0; to < here.ranks; ++to) {
      if (from != to) clean_pair(rng, from, to, (CommKind)rng_below(rng, 3));
    }
  }
  doing("clean: completion");
  complete_all();
  for (int comm = 0; comm <= RACES; ++comm) clean_collectives((CommKind)comm);
}
