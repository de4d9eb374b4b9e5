// SPDX-License-Identifier: BSD-3-Clause
//
// Steps of the error fuzzer whose requests do not end as usual: persistent requests over several
// cycles, cancelled requests, and freed requests whose messages still arrive.
//
// Messages between the ranks make each outcome unique, so plain and helped runs give the same
// trace. For example, a rank that cancels a send tells the receiver before the receiver posts its
// receive.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"

enum { TAG_PERSISTENT = 20, TAG_CANCEL = 30, TAG_NOBODY = 40, TAG_FREED = 50 };

// Draws two different ranks of the communicator BASE.
static void pick_pair(Rng* rng, int* source, int* target) {
  *source = rng_range(rng, 0, here.ranks - 1);
  *target = (*source + rng_range(rng, 1, here.ranks - 1)) % here.ranks;
}

// ---- persistent requests -----------------------------------------------------------------------

// The sender's or receiver's side of a repeated message. The buffer is filled anew for each cycle.
typedef struct {
  Layout* layout;
  Buffer buffer;
  size_t items, bytes;
  uint64_t guard, id;
  bool send, too_long;
} Ends;

static Ends ends_make(const Content* content, bool send) {
  Op* op = send ? op_send(content, "cycle") : op_recv(content, "cycle");
  Ends ends = {.layout = op->layout, .buffer = op->buffer, .items = op->items, .bytes = op->bytes};
  ends.send = send;
  ends.too_long = op->short_of_room;
  ends.guard = mix2(content->id, send ? 11 : 12);
  free(op);
  return ends;
}

static void ends_fill(Ends* ends, uint64_t id) {
  ends->id = id;
  payload(ends->guard, 0, ends->buffer.raw, ends->buffer.raw_length);
  if (ends->send) buffer_put(&ends->buffer, ends->layout, id, ends->bytes);
}

static size_t ends_wrong(Ends* ends) {
  ptrdiff_t first;
  size_t bytes = ends->bytes;
#ifdef OPEN_MPI
  if (ends->too_long) return 0;  // Open MPI may overrun: see op_fill()
#endif
  if (ends->too_long) {
    bytes = ends->items * ends->layout->size;
    buffer_put(&ends->buffer, ends->layout, ends->id, bytes);
  }
  return buffer_wrong(&ends->buffer, ends->layout, ends->guard, ends->id, bytes, &first);
}

static void ends_free(Ends* ends) {
  buffer_free(&ends->buffer);
  layout_free(ends->layout);
}

typedef struct {
  int source, target, tag, cycles, first_pause;
  bool sync, recv_persistent, free_send, startall, twice;
  Content content;
} Cycles;

static int cycle_start(const Cycles* plan, MPI_Request* request) {
  if (!plan->startall) return MPI_Start(request);
  return MPI_Startall(1, request);
}

static void cycle_wait(const char* name, int cycle, MPI_Request* request, Ends* ends, bool test) {
  MPI_Status status = {0};
  int flag = 0, code = MPI_SUCCESS, bytes = -1;
  if (!test) code = MPI_Wait(request, &status);
  while (test && code == MPI_SUCCESS && !flag) code = MPI_Test(request, &flag, &status);
  if (ends->send) {
    see("%s cycle %d: %s", name, cycle, class_of(code));
  } else {
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    see("%s cycle %d: %s from %d tag %d bytes %d, %zu wrong", name, cycle, class_of(code),
        status.MPI_SOURCE, status.MPI_TAG, code == MPI_SUCCESS ? bytes : -1, ends_wrong(ends));
  }
}

static void cycles_send(const Cycles* plan) {
  Ends ends = ends_make(&plan->content, true);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm comm = here.comm[BASE];
  int code = plan->sync ? MPI_Ssend_init(ends.buffer.base, (int)ends.items, ends.layout->type,
                                         plan->target, plan->tag, comm, &request)
                        : MPI_Send_init(ends.buffer.base, (int)ends.items, ends.layout->type,
                                        plan->target, plan->tag, comm, &request);
  see("send init: %s", class_of(code));
  for (int i = 0; i < plan->cycles; ++i) {
    ends_fill(&ends, mix2(plan->content.id, (uint64_t)i));
    jitter();
    code = cycle_start(plan, &request);
    if (code != MPI_SUCCESS) see("send start %d: %s", i, class_of(code));
    if (plan->free_send && i == plan->cycles - 1) break;
    cycle_wait("persistent send", i, &request, &ends, rng_chance(&here.local, 50));
  }
  see("free of the persistent send: %s", class_of(MPI_Request_free(&request)));
  if (plan->free_send) agree(plan->target, plan->source, 1);
  ends_free(&ends);
}

static void cycles_recv(const Cycles* plan) {
  Ends ends = ends_make(&plan->content, false);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm comm = here.comm[BASE];
  int items = (int)ends.items, code;
  if (plan->recv_persistent) {
    code = MPI_Recv_init(ends.buffer.base, items, ends.layout->type, plan->source, plan->tag, comm,
                         &request);
    see("recv init: %s", class_of(code));
  }
  for (int i = 0; i < plan->cycles; ++i) {
    ends_fill(&ends, 0);
    ends.id = mix2(plan->content.id, (uint64_t)i);
    jitter();
    code = plan->recv_persistent ? cycle_start(plan, &request)
                                 : MPI_Irecv(ends.buffer.base, items, ends.layout->type,
                                             plan->source, plan->tag, comm, &request);
    if (code != MPI_SUCCESS) see("recv start %d: %s", i, class_of(code));
    cycle_wait("persistent recv", i, &request, &ends, rng_chance(&here.local, 50));
  }
  if (plan->recv_persistent) {
    see("free of the persistent recv: %s", class_of(MPI_Request_free(&request)));
  }
  if (plan->free_send) agree(plan->target, plan->source, 1);
  ends_free(&ends);
}

void step_persistent(Rng* rng) {
  Cycles plan = {.tag = TAG_PERSISTENT + rng_range(rng, 0, 1), .cycles = rng_range(rng, 1, 4)};
  pick_pair(rng, &plan.source, &plan.target);
  plan.sync = rng_chance(rng, 30);
  plan.recv_persistent = rng_chance(rng, 70);
  plan.free_send = rng_chance(rng, 25);
  plan.startall = rng_chance(rng, 30);
  plan.content = content_make(rng, !left_out("persistent receives that are too short"));
  doing("persistent cycles");
  if (here.rank == plan.source) cycles_send(&plan);
  if (here.rank == plan.target) cycles_recv(&plan);
}

// ---- cancelled requests ------------------------------------------------------------------------

static Op* cancel_recv_made(const Content* content, bool persistent, int from, int tag) {
  Op* op = op_recv(content, "cancelled %sreceive", persistent ? "persistent " : "");
  op->cancelled = true;
  op->short_of_room = false;
  int items = (int)op->items;
  if (persistent) {
    op->persistent = true;
    MPI_Recv_init(op->buffer.base, items, op->layout->type, from, tag, here.comm[BASE],
                  &op->request);
    MPI_Start(&op->request);
  } else {
    MPI_Irecv(op->buffer.base, items, op->layout->type, from, tag, here.comm[BASE], &op->request);
  }
  return op;
}

// Cancels a receive that matches no message.
static void cancel_recv(Rng* rng) {
  Content content = content_make(rng, false);
  int who = rng_range(rng, 0, here.ranks - 1);
  int from = rng_chance(rng, 30) ? MPI_ANY_SOURCE : rng_range(rng, 0, here.ranks - 1);
  bool persistent = rng_chance(rng, 40), forget = rng_chance(rng, 20);
  if (here.rank != who) return;
  Op* op = cancel_recv_made(&content, persistent, from, TAG_NOBODY);
  op->unsure = true;  // a cancelled receive has no source and tag
  see("Cancel: %s", class_of(MPI_Cancel(&op->request)));
  if (!forget) return op_pend(op);
  see("free of a cancelled receive: %s", class_of(MPI_Request_free(&op->request)));
  op_over(op, MPI_SUCCESS, &(MPI_Status){0});
}

// Cancels a send before its receive is posted.
static void cancel_send(Rng* rng) {
  Content content = content_make(rng, false);
  int source, target, flag = 0;
  pick_pair(rng, &source, &target);
  bool sync = rng_chance(rng, 40);
  MPI_Status status = {0};
  MPI_Comm comm = here.comm[BASE];
  if (here.rank == source) {
    Op* op = op_send(&content, "cancelled send");
    op->cancelled = true;
    int items = (int)op->items;
    if (sync)
      MPI_Issend(op->buffer.base, items, op->layout->type, target, TAG_CANCEL, comm, &op->request);
    else
      MPI_Isend(op->buffer.base, items, op->layout->type, target, TAG_CANCEL, comm, &op->request);
    see("Cancel of a send: %s", class_of(MPI_Cancel(&op->request)));
    agree(source, target, 0);
    int code = MPI_Wait(&op->request, &status);
    if (code == MPI_SUCCESS) MPI_Test_cancelled(&status, &flag);
    op_over(op, code, &status);
    agree(source, target, flag);
  }
  if (here.rank == target) {
    agree(source, target, 0);
    Op* op = op_recv(&content, "receive of a cancelled send");
    MPI_Irecv(op->buffer.base, (int)op->items, op->layout->type, source, TAG_CANCEL, comm,
              &op->request);
    flag = agree(source, target, 0);
    op->cancelled = op->unsure = flag != 0;
    if (flag) see("Cancel of its receive: %s", class_of(MPI_Cancel(&op->request)));
    op_pend(op);
  }
}

// Cancels a send or a receive after the message has arrived. The cancellation must have no effect.
static void cancel_late(Rng* rng) {
  Content content = content_make(rng, false);
  int source, target;
  pick_pair(rng, &source, &target);
  bool the_send = rng_chance(rng, 60), sync = rng_chance(rng, 40);
  MPI_Comm comm = here.comm[BASE];
  if (here.rank == source) {
    Op* op = op_send(&content, "send cancelled too late");
    op->cancelled = the_send;
    int items = (int)op->items;
    if (sync)
      MPI_Issend(op->buffer.base, items, op->layout->type, target, TAG_CANCEL, comm, &op->request);
    else
      MPI_Isend(op->buffer.base, items, op->layout->type, target, TAG_CANCEL, comm, &op->request);
    agree(source, target, 0);
    agree(target, source, 0);
    if (the_send) see("Cancel of a send, late: %s", class_of(MPI_Cancel(&op->request)));
    op_pend(op);
  }
  if (here.rank == target) {
    Op* op = op_recv(&content, "receive cancelled too late");
    op->cancelled = !the_send;
    MPI_Irecv(op->buffer.base, (int)op->items, op->layout->type, source, TAG_CANCEL, comm,
              &op->request);
    agree(source, target, 0);
    if (!the_send) see("Cancel of a receive, late: %s", class_of(MPI_Cancel(&op->request)));
    MPI_Status status;
    int code = MPI_Wait(&op->request, &status);
    op_over(op, code, &status);
    agree(target, source, 0);
  }
}

void step_cancel(Rng* rng) {
  int what = rng_range(rng, 0, 2);
  doing("cancelling");
  if (what == 0) cancel_recv(rng);
  if (what == 1) cancel_send(rng);
  if (what == 2) cancel_late(rng);
}

// ---- freed requests ----------------------------------------------------------------------------

static void freed_send(const Content* content, int source, int target, bool sync) {
  MPI_Comm comm = here.comm[BASE];
  if (here.rank == source) {
    Op* op = op_send(content, "freed send");
    int items = (int)op->items;
    if (sync)
      MPI_Issend(op->buffer.base, items, op->layout->type, target, TAG_FREED, comm, &op->request);
    else
      MPI_Isend(op->buffer.base, items, op->layout->type, target, TAG_FREED, comm, &op->request);
    see("Request_free of a send: %s", class_of(MPI_Request_free(&op->request)));
    agree(target, source, 0);
    op_over(op, MPI_SUCCESS, NULL);
  }
  if (here.rank == target) {
    Op* op = op_recv(content, "receive of a freed send");
    MPI_Status status = {0};
    int code = MPI_Recv(op->buffer.base, (int)op->items, op->layout->type, source, TAG_FREED, comm,
                        &status);
    op_over(op, code, &status);
    agree(target, source, 0);
  }
}

// Frees the request of a receive that is under way. No call reports the arrival of its message
// then, so the receiver looks at the buffer until the data is there.
static void freed_recv(const Content* content, int source, int target) {
  MPI_Comm comm = here.comm[BASE];
  if (here.rank == source) {
    Op* op = op_send(content, "send to a freed receive");
    int code = MPI_Send(op->buffer.base, (int)op->items, op->layout->type, target, TAG_FREED, comm);
    op_over(op, code, NULL);
    agree(target, source, 0);
  }
  if (here.rank == target) {
    Ends ends = ends_make(content, false);
    MPI_Request request;
    MPI_Irecv(ends.buffer.base, (int)ends.items, ends.layout->type, source, TAG_FREED, comm,
              &request);
    see("Request_free of a receive: %s", class_of(MPI_Request_free(&request)));
    ends.id = content->id;
    doing("waiting for the message of a freed receive");
    int flag;
    while (ends_wrong(&ends) != 0) MPI_Iprobe(source, TAG_NOBODY, comm, &flag, MPI_STATUS_IGNORE);
    see("freed receive: there");
    agree(target, source, 0);
    ends_free(&ends);
  }
}

void step_freed(Rng* rng) {
  int source, target;
  pick_pair(rng, &source, &target);
  doing("freed requests");
  if (rng_chance(rng, 60)) {
    Content content = content_make(rng, true);
    freed_send(&content, source, target, rng_chance(rng, 40));
  } else {
    Content content = content_make(rng, false);
    freed_recv(&content, source, target);
  }
}
