// SPDX-License-Identifier: BSD-3-Clause
//
// Plays a fuzzer round: starts sends and receives, completes the requests by every completing call
// of MPI, and checks statuses, data, gaps and guards.
//
// A blocking completion waits only for messages of steps that this rank has reached, so no
// completion depends on a later step of a rank. After its check a send buffer is overwritten and
// freed at once, so a late copy delivers wrong bytes. Received buffers rest until the end of the
// round, when the fuzzer compares the buffers again to find late writes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

enum { ERROR_UNSET = 0x7abc, TAG_NOBODY = 30000, PENDING_MOST = 14 };
enum { RESTING_MOST = 24 << 20 };

static void at(Player* player, const Message* message, const char* doing) {
  player->at = message;
  player->doing = doing;
}

static void check(const Player* player, const Message* message, int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  fail(player, message, "%s returned %d: %s", call, code, text);
}

#define TRY(call) check(player, message, call, #call)

static uint64_t guard_id(const Message* message, OpKind kind) {
  return mix2(message->id, kind == OP_SEND ? 11 : 12);
}

// ---- communicators -----------------------------------------------------------------------------

static void comm_make(Player* player, CommKind kind) {
  MPI_Comm parent = player->parent;
  int rank = player->rank, half = player->ranks / 2;
  MPI_Comm* comm = &player->comm[kind];
  *comm = MPI_COMM_NULL;
  switch (kind) {
    case COMM_BASE:
      *comm = parent;
      break;
    case COMM_DUP:
      MPI_Comm_dup(parent, comm);
      break;
    case COMM_SPLIT:
      MPI_Comm_split(parent, rank % 2, rank, comm);
      break;
    case COMM_REVERSED:
      MPI_Comm_split(parent, 0, -rank, comm);
      break;
    case COMM_SELF:
      MPI_Comm_dup(MPI_COMM_SELF, comm);
      break;
    case COMM_INTER:
      if (half > 0) {
        MPI_Comm side;
        MPI_Comm_split(parent, rank < half, rank, &side);
        MPI_Intercomm_create(side, 0, parent, rank < half ? half : 0, 99, comm);
        MPI_Comm_free(&side);
      }
      break;
    default:
      break;
  }
  if (*comm != MPI_COMM_NULL) MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
}

static void comm_drop(Player* player, CommKind kind) {
  if (kind != COMM_BASE && player->comm[kind] != MPI_COMM_NULL) MPI_Comm_free(&player->comm[kind]);
}

void comms_make(Player* player) {
  for (int kind = 0; kind < COMMS; ++kind) comm_make(player, (CommKind)kind);
}

void comms_free(Player* player) {
  for (int kind = 0; kind < COMMS; ++kind) comm_drop(player, (CommKind)kind);
}

// ---- ops: calls under way ----------------------------------------------------------------------

static Op* op_new(const Message* message, OpKind kind) {
  Op* op = calloc(1, sizeof *op);
  op->kind = kind;
  op->message = *message;
  op->request = MPI_REQUEST_NULL;
  bool send = kind == OP_SEND;
  op->layout = layout_make(send ? message->send_layout : message->recv_layout, message->element,
                           send ? message->send_contiguous : message->recv_contiguous);
  size_t per_item = (size_t)op->layout->elements;
  op->items = (message->elements + per_item - 1) / per_item;
  if (!send) op->items += message->extra_items;
  op->buffer = buffer_make(op->layout, op->items, guard_id(message, kind));
  if (send) buffer_put(&op->buffer, op->layout, message->id, message->bytes);
  return op;
}

static void op_free(Op* op) {
  buffer_free(&op->buffer);
  layout_free(op->layout);
  free(op);
}

static void pend(Player* player, Op* op) {
  if (player->pending_count == player->pending_room) {
    player->pending_room = 2 * player->pending_room + 16;
    player->pending = realloc(player->pending, sizeof(Op*) * (size_t)player->pending_room);
  }
  player->pending[player->pending_count++] = op;
}

// Removes `op` from the pending ops. The remaining ops keep their order, so that timing does not
// decide which of them the next completing call gets.
static void unpend(Player* player, const Op* op) {
  int at = 0;
  while (at < player->pending_count && player->pending[at] != op) ++at;
  if (at == player->pending_count) return;
  int behind = --player->pending_count - at;
  memmove(&player->pending[at], &player->pending[at + 1], sizeof(Op*) * (size_t)behind);
}

// The arguments of MPI for a buffer: an address with a type and a count, or MPI_BOTTOM with an
// absolute type.
typedef struct {
  void* address;
  int count;
  MPI_Datatype type;
  bool absolute;
} Place;

static Place place_of(Op* op) {
  Place place = {op->buffer.base, (int)op->items, op->layout->type, false};
  bool bottom = op->kind == OP_SEND ? op->message.send_bottom : op->message.recv_bottom;
  if (!bottom) return place;
  MPI_Aint address;
  MPI_Get_address(op->buffer.base, &address);
  MPI_Type_create_hindexed(1, &place.count, &address, place.type, &place.type);
  MPI_Type_commit(&place.type);
  place.address = MPI_BOTTOM;
  place.count = 1;
  place.absolute = true;
  return place;
}

static void place_drop(Place* place) {
  if (place->absolute) MPI_Type_free(&place->type);
}

// ---- checks ------------------------------------------------------------------------------------

static void rest(Player* player, Op* op) {
  size_t bytes = op->buffer.raw_length;
  if (player->resting_bytes + bytes > RESTING_MOST) return;
  if (player->resting_count == player->resting_room) {
    player->resting_room = 2 * player->resting_room + 64;
    player->resting = realloc(player->resting, sizeof(Resting) * (size_t)player->resting_room);
  }
  uint64_t id = mix2(op->message.id, 13);
  payload(id, 0, op->buffer.raw, bytes);
  player->resting[player->resting_count++] = (Resting){op->buffer, id};
  player->resting_bytes += bytes;
  op->buffer.raw = NULL;
}

static void check_resting(Player* player) {
  for (int i = 0; i < player->resting_count; ++i) {
    ptrdiff_t first = 0;
    Resting* resting = &player->resting[i];
    size_t wrong = buffer_wrong(&resting->buffer, NULL, resting->id, 0, 0, &first);
    if (wrong != 0) {
      fail(player, NULL, "%zu bytes of a received and checked buffer were written later, first %td",
           wrong, first);
    }
    buffer_free(&resting->buffer);
  }
  player->resting_count = 0;
  player->resting_bytes = 0;
}

static void check_data(Player* player, Op* op, const char* whose) {
  const Message* message = &op->message;
  ptrdiff_t first = 0;
  size_t wrong = buffer_wrong(&op->buffer, op->layout, guard_id(message, op->kind), message->id,
                              message->bytes, &first);
  if (wrong == 0) return;
  bool guard = first < op->layout->low ||
               first >= (ptrdiff_t)(op->items - 1) * op->layout->extent + op->layout->high;
  fail(player, message, "%zu wrong bytes in the %s buffer, first at offset %td%s (type %s x %zu)",
       wrong, whose, first, guard ? ", a guard byte" : "", op->layout->name, op->items);
}

// Checks what MPI_Get_elements says about a received message. The answer is not part of the run's
// hash: for a receive from any source, timing decides whether the fuzzer has a status to ask about.
static void check_elements(Player* player, const Message* message, const Layout* layout,
                           const MPI_Status* status) {
  int parts = -7;
  MPI_Count long_parts = -7;
  TRY(MPI_Get_elements(status, layout->type, &parts));
  TRY(MPI_Get_elements_x(status, layout->type, &long_parts));
  if (!element_is_composed(message->element) && parts != (int)message->elements) {
    fail(player, message, "Get_elements gave %d, not %zu (%s)", parts, message->elements,
         layout->name);
  }
  if (long_parts != parts) {
    fail(player, message, "Get_elements_x gave %lld, Get_elements %d", (long long)long_parts,
         parts);
  }
}

static void check_counts(Player* player, const Message* message, const Layout* layout,
                         const MPI_Status* status) {
  int count = -7, cancelled = -7;
  size_t per_item = (size_t)layout->elements;
  int want =
      message->elements % per_item == 0 ? (int)(message->elements / per_item) : MPI_UNDEFINED;
  TRY(MPI_Get_count(status, layout->type, &count));
  if (count != want)
    fail(player, message, "Get_count gave %d, not %d (%s)", count, want, layout->name);
  if (layout->countable) check_elements(player, message, layout, status);
  TRY(MPI_Test_cancelled(status, &cancelled));
  if (cancelled) fail(player, message, "the receive's status says cancelled");
}

// Adds every byte of a status to the hash of the run, which must be the same in plain and helped
// runs.
static void hash_status(Player* player, const Message* message, const MPI_Status* status) {
  const unsigned char* bytes = (const unsigned char*)status;
  uint64_t seen = message->id;
  for (size_t i = 0; i < sizeof *status; ++i) seen = mix2(seen, bytes[i]);
  player->hash += seen;
}

static void check_status(Player* player, const Message* message, const Layout* layout,
                         const MPI_Status* status) {
  int source = rank_in(player, message->comm, message->target, message->source);
  if (status->MPI_SOURCE != source) {
    fail(player, message, "status.MPI_SOURCE is %d, not %d", status->MPI_SOURCE, source);
  }
  if (status->MPI_TAG != message->tag) {
    fail(player, message, "status.MPI_TAG is %d, not %d", status->MPI_TAG, message->tag);
  }
  if (status->MPI_ERROR != ERROR_UNSET && status->MPI_ERROR != MPI_SUCCESS) {
    fail(player, message, "status.MPI_ERROR is %d after a success", status->MPI_ERROR);
  }
  check_counts(player, message, layout, status);
  if (!message->any_source) hash_status(player, message, status);
}

static void count_message(Player* player, const Message* message) {
  player->messages += 1;
  player->bytes += message->bytes;
  uint64_t seen = mix2(message->id, message->bytes);
  seen = mix2(seen, (uint64_t)message->source * 4096 + (uint64_t)message->target);
  player->hash += mix2(seen, (uint64_t)message->tag * 16 + (uint64_t)message->comm);
}

static void finish_recv(Player* player, Op* op, const MPI_Status* status) {
  if (status != NULL) check_status(player, &op->message, op->layout, status);
  check_data(player, op, "receive");
  count_message(player, &op->message);
}

static void finish_send(Player* player, Op* op, const MPI_Status* status) {
  const Message* message = &op->message;
  if (status != NULL) {
    int cancelled = -7;
    TRY(MPI_Test_cancelled(status, &cancelled));
    if (cancelled) fail(player, message, "the send's status says cancelled");
  }
  check_data(player, op, "send");
}

// Keeps in `op` the status of a receive from any source. check_gathered() later finds out from the
// statuses of all such receives which message each of them got.
static void finish_gathered(Player* player, Op* op, const MPI_Status* status) {
  const Message* message = &op->message;
  op->arrived_from = status->MPI_SOURCE;
  op->arrived_tag = status->MPI_TAG;
  const bool countable = op->layout->countable;
  int parts = -7;
  TRY(MPI_Get_elements(status, countable ? op->layout->type : MPI_BYTE, &parts));
  op->message.elements = (size_t)parts / (countable ? 1 : op->layout->element_size);
}

static void finish_op(Player* player, Op* op, const MPI_Status* status) {
  const Message* message = &op->message;
  op->done = true;
  player->at = message;
  if (op->gathered) {
    finish_gathered(player, op, status);
  } else if (op->kind == OP_SEND) {
    finish_send(player, op, status);
  } else {
    finish_recv(player, op, status);
  }
  if (op->keep) return;
  if (op->persistent) TRY(MPI_Request_free(&op->request));
  if (op->request != MPI_REQUEST_NULL) fail(player, message, "the request is not null when done");
  if (op->gathered) return;
  unpend(player, op);
  if (op->kind == OP_SEND) {
    memset(op->buffer.raw, 0xdb, op->buffer.raw_length);
  } else {
    rest(player, op);
  }
  op_free(op);
}

// ---- completing requests -----------------------------------------------------------------------

static MPI_Status fresh_status(void) {
  MPI_Status status;
  memset(&status, 0x5a, sizeof status);
  status.MPI_ERROR = ERROR_UNSET;
  return status;
}

void finish_request(Player* player, MPI_Request* request, MPI_Status* status) {
  if (rng_chance(&player->local, 50)) {
    MPI_Wait(request, status);
    return;
  }
  int flag = 0;
  while (!flag) MPI_Test(request, &flag, status);
}

// MPICH 5.0 loses the status of a persistent request after MPI_Request_get_status returned true.
static bool status_survives_asking(const Op* op) {
#ifdef OPEN_MPI
  (void)op;
  return true;
#else
  return !op->persistent;
#endif
}

static void wait_each(Player* player, Op** set, int count, Completion how) {
  for (int i = 0; i < count; ++i) {
    const Message* message = &set[i]->message;
    MPI_Status status = fresh_status();
    bool ignore = message->ignore_status && !set[i]->gathered;
    MPI_Status* wanted = ignore ? MPI_STATUS_IGNORE : &status;
    int flag = 0;
    at(player, message, completion_names[how]);
    if (how == WAIT) TRY(MPI_Wait(&set[i]->request, wanted));
    while (how == TEST && !flag) TRY(MPI_Test(&set[i]->request, &flag, wanted));
    if (how == GET_STATUS) {
      MPI_Status early = fresh_status();
      while (!flag) TRY(MPI_Request_get_status(set[i]->request, &flag, &early));
      if (set[i]->kind == OP_RECV && !set[i]->gathered) {
        check_status(player, message, set[i]->layout, &early);
      }
      flag = 0;
      TRY(MPI_Test(&set[i]->request, &flag, wanted));
      if (!flag) fail(player, message, "Test is false after Request_get_status was true");
      if (!status_survives_asking(set[i])) {
        int error = status.MPI_ERROR;
        status = early;
        status.MPI_ERROR = error;
      }
    }
    finish_op(player, set[i], ignore ? NULL : &status);
  }
}

enum { SET_MOST = 256 };

static void wait_all(Player* player, Op** set, int count, Completion how) {
  MPI_Request requests[SET_MOST];
  MPI_Status statuses[SET_MOST];
  const Message* message = &set[0]->message;
  bool ignore = how == WAITALL_IGNORE;
  for (int i = 0; i < count; ++i) {
    requests[i] = set[i]->request;
    statuses[i] = fresh_status();
    ignore = ignore && !set[i]->gathered;
  }
  at(player, message, completion_names[how]);
  if (how == TESTALL) {
    int flag = 0;
    while (!flag) TRY(MPI_Testall(count, requests, &flag, statuses));
    ignore = false;
  } else {
    TRY(MPI_Waitall(count, requests, ignore ? MPI_STATUSES_IGNORE : statuses));
  }
  for (int i = 0; i < count; ++i) {
    set[i]->request = requests[i];
    finish_op(player, set[i], ignore ? NULL : &statuses[i]);
  }
}

static int some_of(Player* player, Completion how, int count, MPI_Request* requests, int* indices,
                   MPI_Status* statuses, const Message* message) {
  int done = 0, flag = 0;
  if (how == WAITANY) TRY(MPI_Waitany(count, requests, indices, statuses));
  while (how == TESTANY && !flag) TRY(MPI_Testany(count, requests, indices, &flag, statuses));
  if (how == WAITANY || how == TESTANY) return indices[0] == MPI_UNDEFINED ? 0 : 1;
  if (how == WAITSOME) TRY(MPI_Waitsome(count, requests, &done, indices, statuses));
  while (how == TESTSOME && done == 0) {
    TRY(MPI_Testsome(count, requests, &done, indices, statuses));
  }
  return done == MPI_UNDEFINED ? 0 : done;
}

// Calls MPI_Waitany, Waitsome, Testany or Testsome until all requests of `set` are complete.
// Inactive persistent requests and null requests stay in the array of the call, as the standard
// allows.
static void wait_some(Player* player, Op** set, int count, Completion how) {
  MPI_Request requests[SET_MOST];
  MPI_Status statuses[SET_MOST];
  int indices[SET_MOST], left = count;
  for (int i = 0; i < count; ++i) requests[i] = set[i]->request;
  const Message* message = &set[0]->message;
  while (left > 0) {
    for (int i = 0; i < count; ++i) statuses[i] = fresh_status();
    at(player, message, completion_names[how]);
    int done = some_of(player, how, count, requests, indices, statuses, message);
    if (done == 0)
      fail(player, message, "%s says nothing is active, %d are", completion_names[how], left);
    for (int i = 0; i < done; ++i) {
      Op* op = indices[i] >= 0 && indices[i] < count ? set[indices[i]] : NULL;
      if (op == NULL)
        fail(player, message, "%s gave index %d of %d", completion_names[how], indices[i], count);
      set[indices[i]] = NULL;
      op->request = requests[indices[i]];
      bool freed = op->persistent && !op->keep;
      finish_op(player, op, &statuses[i]);
      if (freed) requests[indices[i]] = MPI_REQUEST_NULL;
      --left;
    }
    for (int i = 0; i < count && left > 0; ++i) {
      if (set[i] != NULL) message = &set[i]->message;
    }
  }
}

// Completes the requests of all ops in `set`, by completing calls of a kind drawn at random. The
// entries of `set` are invalid afterwards.
static void complete(Player* player, Op** set, int count) {
  while (count > SET_MOST) {
    complete(player, set, SET_MOST);
    set += SET_MOST;
    count -= SET_MOST;
  }
  if (count == 0) return;
  Completion how = (Completion)rng_below(&player->local, COMPLETION_COUNT);
  player->used_completion[how]++;
  switch (how) {
    case WAIT:
    case TEST:
    case GET_STATUS:
      wait_each(player, set, count, how);
      break;
    case WAITALL:
    case WAITALL_IGNORE:
    case TESTALL:
      wait_all(player, set, count, how);
      break;
    default:
      wait_some(player, set, count, how);
      break;
  }
}

static void shuffle(Rng* rng, Op** set, int count) {
  for (int i = count - 1; i > 0; --i) {
    int j = (int)rng_below(rng, (uint32_t)i + 1);
    Op* keep = set[i];
    set[i] = set[j];
    set[j] = keep;
  }
}

// Completes a random part of the player's pending requests: each with a probability of `percent`.
static void complete_pending(Player* player, int percent) {
  int count = 0;
  Op** set = malloc(sizeof(Op*) * (size_t)(player->pending_count + 1));
  for (int i = 0; i < player->pending_count; ++i) {
    if (rng_chance(&player->local, percent)) set[count++] = player->pending[i];
  }
  shuffle(&player->local, set, count);
  complete(player, set, count);
  free(set);
}

// ---- sending -----------------------------------------------------------------------------------

static void send_and_finish(Player* player, Op* op, Place place, int target, MPI_Comm comm) {
  const Message* message = &op->message;
  int tag = message->tag;
  switch (message->send) {
    case SEND:
      TRY(MPI_Send(place.address, place.count, place.type, target, tag, comm));
      break;
    case SSEND:
      TRY(MPI_Ssend(place.address, place.count, place.type, target, tag, comm));
      break;
    case BSEND:
      TRY(MPI_Bsend(place.address, place.count, place.type, target, tag, comm));
      break;
    case RSEND:
      TRY(MPI_Rsend(place.address, place.count, place.type, target, tag, comm));
      break;
#ifdef HAVE_MPI4
    case SEND_C:
      TRY(MPI_Send_c(place.address, place.count, place.type, target, tag, comm));
      break;
#endif
    default:
      TRY(MPI_Sendrecv(place.address, place.count, place.type, target, tag, NULL, 0, MPI_BYTE,
                       MPI_PROC_NULL, 0, comm, MPI_STATUS_IGNORE));
  }
  finish_op(player, op, NULL);
}

static bool send_blocks(SendMode mode) {
  return mode == SEND || mode == SSEND || mode == BSEND || mode == RSEND || mode == SEND_C ||
         mode == SENDRECV;
}

static void send_start(Player* player, Op* op, Place place, int target, MPI_Comm comm) {
  const Message* message = &op->message;
  int tag = message->tag, count = place.count;
  void* from = place.address;
  MPI_Datatype type = place.type;
  MPI_Request* request = &op->request;
  switch (message->send) {
    case ISEND:
      TRY(MPI_Isend(from, count, type, target, tag, comm, request));
      break;
    case ISSEND:
      TRY(MPI_Issend(from, count, type, target, tag, comm, request));
      break;
    case IBSEND:
      TRY(MPI_Ibsend(from, count, type, target, tag, comm, request));
      break;
    case IRSEND:
      TRY(MPI_Irsend(from, count, type, target, tag, comm, request));
      break;
    case SEND_INIT:
      TRY(MPI_Send_init(from, count, type, target, tag, comm, request));
      break;
    case SSEND_INIT:
      TRY(MPI_Ssend_init(from, count, type, target, tag, comm, request));
      break;
    case BSEND_INIT:
      TRY(MPI_Bsend_init(from, count, type, target, tag, comm, request));
      break;
    case RSEND_INIT:
      TRY(MPI_Rsend_init(from, count, type, target, tag, comm, request));
      break;
#ifdef HAVE_MPI4
    case ISEND_C:
      TRY(MPI_Isend_c(from, count, type, target, tag, comm, request));
      break;
#endif
    default:
      fail(player, message, "no such send mode");
  }
  op->persistent = message->send == SEND_INIT || message->send == SSEND_INIT ||
                   message->send == BSEND_INIT || message->send == RSEND_INIT;
}

// Makes the op of a send and starts it; a persistent send is started only if `start`. If the
// message's mode blocks, sends the message and returns NULL.
static Op* send_message(Player* player, const Message* message, bool start) {
  Op* op = op_new(message, OP_SEND);
  Place place = place_of(op);
  int target = rank_in(player, message->comm, message->source, message->target);
  MPI_Comm comm = player->comm[message->comm];
  player->used_send[message->send]++;
  at(player, &op->message, send_names[message->send]);
  if (send_blocks(message->send)) {
    send_and_finish(player, op, place, target, comm);
    place_drop(&place);
    return NULL;
  }
  send_start(player, op, place, target, comm);
  place_drop(&place);
  if (op->persistent && start) TRY(MPI_Start(&op->request));
  return op;
}

// ---- receiving ---------------------------------------------------------------------------------

typedef struct {
  int source, tag;
  MPI_Comm comm;
} Envelope;

static Envelope envelope_of(const Player* player, const Message* message) {
  Envelope envelope = {rank_in(player, message->comm, message->target, message->source),
                       message->tag, player->comm[message->comm]};
  if (message->any_source) envelope.source = MPI_ANY_SOURCE;
  if (message->any_tag) envelope.tag = MPI_ANY_TAG;
  return envelope;
}

static void check_probe(Player* player, Op* op, const MPI_Status* status) {
  if (!op->gathered) check_status(player, &op->message, op->layout, status);
}

static bool recv_starts(RecvMode mode) {
  return mode == IRECV || mode == RECV_INIT || mode == IRECV_C;
}

static bool recv_is_matched(RecvMode mode) {
  return mode == MPROBE_MRECV || mode == IMPROBE_MRECV || mode == MPROBE_IMRECV ||
         mode == IMPROBE_IMRECV;
}

static void recv_start(Player* player, Op* op, Place place, Envelope e) {
  const Message* message = &op->message;
  if (message->recv == RECV_INIT) {
    TRY(MPI_Recv_init(place.address, place.count, place.type, e.source, e.tag, e.comm,
                      &op->request));
    op->persistent = true;
    return;
  }
#ifdef HAVE_MPI4
  if (message->recv == IRECV_C) {
    TRY(MPI_Irecv_c(place.address, place.count, place.type, e.source, e.tag, e.comm, &op->request));
    return;
  }
#endif
  TRY(MPI_Irecv(place.address, place.count, place.type, e.source, e.tag, e.comm, &op->request));
}

static void recv_now(Player* player, Op* op, Place place, Envelope e) {
  const Message* message = &op->message;
  MPI_Status status = fresh_status();
  bool ignore = message->ignore_status && !op->gathered;
  MPI_Status* wanted = ignore ? MPI_STATUS_IGNORE : &status;
  if (message->recv == RECVSENDRECV) {
    TRY(MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, place.address, place.count, place.type,
                     e.source, e.tag, e.comm, wanted));
#ifdef HAVE_MPI4
  } else if (message->recv == RECV_C) {
    TRY(MPI_Recv_c(place.address, place.count, place.type, e.source, e.tag, e.comm, wanted));
#endif
  } else {
    TRY(MPI_Recv(place.address, place.count, place.type, e.source, e.tag, e.comm, wanted));
  }
  finish_op(player, op, ignore ? NULL : &status);
}

// Probes for the message of `op`, then receives exactly the probed message. Returns whether the
// receive is still pending.
static bool recv_probed(Player* player, Op* op, Place place, Envelope e) {
  const Message* message = &op->message;
  MPI_Status status = fresh_status();
  int flag = 0;
  if (message->recv == IPROBE_RECV) {
    while (!flag) TRY(MPI_Iprobe(e.source, e.tag, e.comm, &flag, &status));
  } else {
    TRY(MPI_Probe(e.source, e.tag, e.comm, &status));
  }
  check_probe(player, op, &status);
  e.source = status.MPI_SOURCE;
  e.tag = status.MPI_TAG;
  if (message->recv == PROBE_IRECV) {
    TRY(MPI_Irecv(place.address, place.count, place.type, e.source, e.tag, e.comm, &op->request));
    return true;
  }
  recv_now(player, op, place, e);
  return false;
}

static bool recv_matched(Player* player, Op* op, Place place, Envelope e) {
  const Message* message = &op->message;
  MPI_Status status = fresh_status();
  MPI_Message handle = MPI_MESSAGE_NULL;
  int flag = 0;
  if (message->recv == IMPROBE_MRECV || message->recv == IMPROBE_IMRECV) {
    while (!flag) TRY(MPI_Improbe(e.source, e.tag, e.comm, &flag, &handle, &status));
  } else {
    TRY(MPI_Mprobe(e.source, e.tag, e.comm, &handle, &status));
  }
  check_probe(player, op, &status);
  if (message->recv == MPROBE_IMRECV || message->recv == IMPROBE_IMRECV) {
    TRY(MPI_Imrecv(place.address, place.count, place.type, &handle, &op->request));
    if (handle != MPI_MESSAGE_NULL) fail(player, message, "Imrecv left the message handle");
    return true;
  }
  status = fresh_status();
  TRY(MPI_Mrecv(place.address, place.count, place.type, &handle, &status));
  if (handle != MPI_MESSAGE_NULL) fail(player, message, "Mrecv left the message handle");
  finish_op(player, op, &status);
  return false;
}

// Posts the receive of `message`, or receives it if its mode blocks. A persistent receive is
// started only if `start`. Returns the op if the receive is pending, or if it is from any source,
// so that check_gathered() will find its message; else NULL.
static Op* recv_message(Player* player, const Message* message, bool gathered, bool start) {
  Op* op = op_new(message, OP_RECV);
  op->gathered = gathered;
  Place place = place_of(op);
  Envelope envelope = envelope_of(player, message);
  RecvMode mode = message->recv;
  bool pending = true;
  player->used_recv[mode]++;
  at(player, &op->message, recv_names[mode]);
  if (recv_starts(mode)) {
    recv_start(player, op, place, envelope);
    if (op->persistent && start) TRY(MPI_Start(&op->request));
  } else if (recv_is_matched(mode)) {
    pending = recv_matched(player, op, place, envelope);
  } else if (mode == RECV || mode == RECV_C || mode == RECVSENDRECV) {
    recv_now(player, op, place, envelope);
    pending = false;
  } else {
    pending = recv_probed(player, op, place, envelope);
  }
  place_drop(&place);
  return pending || gathered ? op : NULL;
}

// ---- steps -------------------------------------------------------------------------------------

static bool is_ready(SendMode mode) {
  return mode == RSEND || mode == IRSEND || mode == RSEND_INIT;
}

static void pend_if(Player* player, Op* op) {
  if (op != NULL) pend(player, op);
}

static void step_message(Player* player, const Message* message, Op** preposted) {
  bool sends = message->source == player->rank, receives = message->target == player->rank;
  bool posted = is_ready(message->send);
  if (receives && posted) {
    pend_if(player, *preposted);
    *preposted = NULL;
  }
  if (sends && receives && !posted && message->recv_first) {
    pend_if(player, recv_message(player, message, false, true));
    pend_if(player, send_message(player, message, true));
    return;
  }
  if (sends) pend_if(player, send_message(player, message, true));
  if (receives && !posted) pend_if(player, recv_message(player, message, false, true));
}

// Posts the receives for all ready sends of the round before any rank continues.
static void step_prepost(Player* player, const Plan* plan, Op** preposted) {
  for (int i = 0; i < plan->count; ++i) {
    const Step* step = &plan->steps[i];
    if (step->kind != STEP_MESSAGE || !is_ready(step->messages[0].send)) continue;
    if (step->messages[0].target != player->rank) continue;
    preposted[i] = recv_message(player, &step->messages[0], false, true);
  }
  player->doing = "barrier after posting for ready sends";
  MPI_Barrier(player->comm[COMM_BASE]);
}

// Returns the message that `op`, a receive from any source, got: the first from its source (and
// tag) that no earlier receive has taken. The caller passes receives in the order of posting.
static const Message* next_from(const Player* player, const Step* step, const Op* op, bool* taken) {
  int source = rank_of_comm(player, step->comm, op->arrived_from, step->target);
  for (int i = 0; i < step->count; ++i) {
    if (taken[i] || step->messages[i].source != source) continue;
    if (!step->messages[i].any_tag && step->messages[i].tag != op->arrived_tag) continue;
    taken[i] = true;
    return &step->messages[i];
  }
  return NULL;
}

static void check_gathered(Player* player, const Step* step, Op** ops) {
  bool* taken = calloc((size_t)step->count + 1, sizeof *taken);
  for (int i = 0; i < step->count; ++i) {
    Op* op = ops[i];
    const Message* message = next_from(player, step, op, taken);
    if (message == NULL) {
      fail(player, &op->message, "got a message from %d, tag %d, that nobody sent",
           op->arrived_from, op->arrived_tag);
    }
    if (op->arrived_tag != message->tag) {
      fail(player, message, "order: tag %d arrived, next from %d is %d", op->arrived_tag,
           message->source, message->tag);
    }
    if (op->message.elements != message->elements) {
      fail(player, message, "%zu elements arrived, %zu were sent", op->message.elements,
           message->elements);
    }
    // The guards around the buffer depend on the message for which the receive was posted, the data
    // on the message that arrived.
    ptrdiff_t first = 0;
    size_t wrong = buffer_wrong(&op->buffer, op->layout, guard_id(&op->message, OP_RECV),
                                message->id, message->bytes, &first);
    if (wrong != 0)
      fail(player, message, "%zu wrong bytes, first at %td, received by any source", wrong, first);
    count_message(player, message);
    op_free(op);
  }
  free(taken);
}

static void gather_receive(Player* player, const Step* step) {
  Op** ops = malloc(sizeof(Op*) * (size_t)(step->count + 1));
  Op** open = malloc(sizeof(Op*) * (size_t)(step->count + 1));
  size_t most = 0;
  int open_count = 0;
  for (int i = 0; i < step->count; ++i) {
    if (step->messages[i].elements > most) most = step->messages[i].elements;
  }
  for (int i = 0; i < step->count; ++i) {
    Message message = step->messages[i];
    message.elements = most;
    ops[i] = recv_message(player, &message, true, true);
    if (!ops[i]->done) open[open_count++] = ops[i];
    if (rng_chance(&player->local, 20)) {
      complete(player, open, open_count);
      open_count = 0;
    }
  }
  shuffle(&player->local, open, open_count);
  complete(player, open, open_count);
  check_gathered(player, step, ops);
  free(ops);
  free(open);
}

static void step_gather(Player* player, const Step* step) {
  if (player->rank == step->target) {
    gather_receive(player, step);
  } else {
    for (int i = 0; i < step->count; ++i) {
      if (step->messages[i].source != player->rank) continue;
      pend_if(player, send_message(player, &step->messages[i], true));
    }
  }
  if (step->count > 0 && step->messages[0].any_tag) {
    player->doing = "barrier after a gather";
    MPI_Barrier(player->comm[COMM_BASE]);
  }
}

// ---- exchanges ---------------------------------------------------------------------------------

// MPICH 4.0 to 5.0 leave the status of MPI_Isendrecv(_replace) unset, so the fuzzer does not check
// it there.
#ifdef OPEN_MPI
static const bool isendrecv_tells_status = true;
#else
static const bool isendrecv_tells_status = false;
#endif

static void exchange_replace(Player* player, const Step* step, const Message* out,
                             const Message* in, bool start) {
  // MPI_Sendrecv_replace has a single buffer: it is filled as the outgoing message and checked as
  // the incoming message.
  const Message* message = out != NULL ? out : in;
  if (message == NULL) message = &step->messages[player->rank];
  Message shown = *message;
  if (out == NULL) shown.id = mix2(shown.id, 99);  // differs from the incoming message
  Op* op = op_new(&shown, OP_SEND);
  uint64_t guard = guard_id(&shown, OP_SEND);
  MPI_Comm comm = player->comm[step->comm];
  int to = out ? rank_in(player, step->comm, player->rank, out->target) : MPI_PROC_NULL;
  int from = in ? rank_in(player, step->comm, player->rank, in->source) : MPI_PROC_NULL;
  int tag = step->messages[0].tag;
  MPI_Status status = fresh_status();
  if (start) {
#ifdef HAVE_ISENDRECV
    MPI_Request request;
    TRY(MPI_Isendrecv_replace(op->buffer.base, (int)op->items, op->layout->type, to, tag, from, tag,
                              comm, &request));
    finish_request(player, &request, &status);
#endif
  } else {
    TRY(MPI_Sendrecv_replace(op->buffer.base, (int)op->items, op->layout->type, to, tag, from, tag,
                             comm, &status));
  }
  const Message* now = in != NULL ? in : &shown;
  bool told = !start || isendrecv_tells_status;
  if (in != NULL && told) check_status(player, in, op->layout, &status);
  ptrdiff_t first = 0;
  size_t wrong = buffer_wrong(&op->buffer, op->layout, guard, now->id, now->bytes, &first);
  if (wrong != 0) {
    fail(player, now, "%zu wrong bytes after a replacing exchange, first at %td (%s x %zu)", wrong,
         first, op->layout->name, op->items);
  }
  if (in != NULL) count_message(player, in);
  op_free(op);
}

static void exchange_sendrecv(Player* player, const Step* step, const Message* out,
                              const Message* in, bool start) {
  Op *sending = NULL, *receiving = NULL;
  Place source = {NULL, 0, MPI_BYTE, false}, sink = source;
  int to = MPI_PROC_NULL, from = MPI_PROC_NULL, tag = step->messages[0].tag;
  const Message* message = out != NULL ? out : in;
  if (out != NULL) {
    sending = op_new(out, OP_SEND);
    source = place_of(sending);
    to = rank_in(player, step->comm, player->rank, out->target);
  }
  if (in != NULL) {
    receiving = op_new(in, OP_RECV);
    sink = place_of(receiving);
    from = rank_in(player, step->comm, player->rank, in->source);
  }
  MPI_Status status = fresh_status();
  MPI_Comm comm = player->comm[step->comm];
  if (start) {
#ifdef HAVE_ISENDRECV
    MPI_Request request;
    TRY(MPI_Isendrecv(source.address, source.count, source.type, to, tag, sink.address, sink.count,
                      sink.type, from, tag, comm, &request));
    finish_request(player, &request, &status);
#endif
  } else {
    TRY(MPI_Sendrecv(source.address, source.count, source.type, to, tag, sink.address, sink.count,
                     sink.type, from, tag, comm, &status));
  }
  place_drop(&source);
  place_drop(&sink);
  bool told = !start || isendrecv_tells_status;
  if (receiving != NULL) finish_op(player, receiving, told ? &status : NULL);
  if (sending != NULL) finish_op(player, sending, NULL);
}

static void exchange_apart(Player* player, const Message* out, const Message* in, bool recv_first) {
  Message sent, received;
  if (in != NULL) {
    received = *in;
    received.recv = recv_first ? IRECV : RECV;
  }
  if (out != NULL) {
    sent = *out;
    sent.send = recv_first ? SEND : ISEND;
  }
  if (recv_first && in != NULL) pend_if(player, recv_message(player, &received, false, true));
  if (out != NULL) pend_if(player, send_message(player, &sent, true));
  if (!recv_first && in != NULL) pend_if(player, recv_message(player, &received, false, true));
}

// Draws the call of an exchange. MPI_Isendrecv_replace of MPICH 5.0 fails for types with gaps.
// Under MPICH 4.0 and 5.0 MPI_Sendrecv_replace fails for some types of composed elements. Both are
// left out.
static Exchange pick_exchange(Player* player, const Step* step) {
  const Message* first = &step->messages[0];
#if defined(OMPI_MAJOR_VERSION)
  bool replaceable = step->repeats != 0;
#else
  bool replaceable = step->repeats != 0 && !element_is_composed(first->element);
#endif
  bool plain = first->send_layout == 0 && !element_is_composed(first->element);
  for (;;) {
    Exchange how = (Exchange)rng_below(&player->local, EXCHANGE_COUNT);
#ifndef HAVE_ISENDRECV
    if (how == X_ISENDRECV || how == X_ISENDRECV_REPLACE) continue;
#endif
    bool replaces = how == X_SENDRECV_REPLACE || how == X_ISENDRECV_REPLACE;
    if (how == X_ISENDRECV_REPLACE && !plain) continue;
    if (!replaces || replaceable) return how;
  }
}

static void step_exchange(Player* player, const Step* step) {
  const Message *out = NULL, *in = NULL;
  for (int i = 0; i < step->count; ++i) {
    const Message* message = &step->messages[i];
    if (message->target < 0) continue;
    if (message->source == player->rank) out = message;
    if (message->target == player->rank) in = message;
  }
  Exchange how = pick_exchange(player, step);
  player->used_exchange[how]++;
  at(player, out != NULL ? out : in, exchange_names[how]);
  switch (how) {
    case X_SENDRECV_REPLACE:
      exchange_replace(player, step, out, in, false);
      break;
    case X_ISENDRECV_REPLACE:
      exchange_replace(player, step, out, in, true);
      break;
    case X_SENDRECV:
      exchange_sendrecv(player, step, out, in, false);
      break;
    case X_ISENDRECV:
      exchange_sendrecv(player, step, out, in, true);
      break;
    default:
      exchange_apart(player, out, in, how == X_IRECV_SEND);
  }
}

// ---- persistent groups -------------------------------------------------------------------------

static Message repeated(const Message* message, int repeat) {
  Message copy = *message;
  copy.id = mix2(message->id, (uint64_t)repeat);
  return copy;
}

static void refill(Op* op, const Message* message) {
  op->message = *message;
  op->done = false;
  payload(guard_id(message, op->kind), 0, op->buffer.raw, op->buffer.raw_length);
  if (op->kind == OP_SEND) buffer_put(&op->buffer, op->layout, message->id, message->bytes);
}

// Makes the op of one side of a message that is repeated, or fills the buffer of its persistent op
// anew. Returns whether the op must still be started.
static bool persistent_side(Player* player, Op** op, const Message* message, OpKind kind) {
  bool keeps = kind == OP_SEND ? message->send != ISEND : message->recv == RECV_INIT;
  if (keeps && *op != NULL) {
    refill(*op, message);
    return true;
  }
  *op = kind == OP_SEND ? send_message(player, message, false)
                        : recv_message(player, message, false, false);
  (*op)->keep = keeps;
  return keeps;
}

static void start_all(Player* player, Op** to_start, int count) {
  MPI_Request requests[16];
  if (count == 0) return;
  const Message* message = &to_start[0]->message;
  if (rng_chance(&player->local, 50)) {
    for (int i = 0; i < count; ++i) TRY(MPI_Start(&to_start[i]->request));
    return;
  }
  for (int i = 0; i < count; ++i) requests[i] = to_start[i]->request;
  TRY(MPI_Startall(count, requests));
  for (int i = 0; i < count; ++i) to_start[i]->request = requests[i];
}

static void persistent_drop(Player* player, Op** ops, int count) {
  for (int i = 0; i < count; ++i) {
    if (ops[i] == NULL) continue;
    const Message* message = &ops[i]->message;
    TRY(MPI_Request_free(&ops[i]->request));
    op_free(ops[i]);
  }
}

static void step_persistent(Player* player, const Step* step) {
  Op* ops[16] = {NULL};  // 2i: the send of message i, 2i+1: its receive
  for (int repeat = 0; repeat < step->repeats; ++repeat) {
    Op *started[16], *to_start[16];
    int started_count = 0, to_start_count = 0;
    for (int i = 0; i < step->count; ++i) {
      Message message = repeated(&step->messages[i], repeat);
      for (int side = 0; side < 2; ++side) {
        bool mine = (side == 0 ? message.target : message.source) == player->rank;
        if (!mine) continue;
        Op** op = &ops[2 * i + 1 - side];
        if (persistent_side(player, op, &message, side == 0 ? OP_RECV : OP_SEND)) {
          to_start[to_start_count++] = *op;
        } else {
          pend(player, *op);
        }
        started[started_count++] = *op;
        if (!(*op)->keep) *op = NULL;
      }
    }
    start_all(player, to_start, to_start_count);
    shuffle(&player->local, started, started_count);
    complete(player, started, started_count);
  }
  persistent_drop(player, ops, 2 * step->count);
}

// ---- steps of each rank alone ------------------------------------------------------------------

// Cancels a receive that matches no message. Its buffer must not change.
static void step_cancel(Player* player, const Step* step) {
  Rng rng = {mix2(step->seed, (uint64_t)player->rank)};
  size_t bytes = pick_bytes(&rng, options.max_bytes);
  unsigned char* buffer = malloc(bytes + 1);
  payload(step->seed, 0, buffer, bytes);
  const Message* message = NULL;
  MPI_Request request;
  MPI_Status status = fresh_status();
  int source = rng_chance(&rng, 50) ? MPI_ANY_SOURCE : (player->rank + 1) % player->ranks;
  player->doing = "cancelling a receive";
  TRY(MPI_Irecv(buffer, (int)bytes, MPI_BYTE, source, TAG_NOBODY, player->comm[COMM_DUP],
                &request));
  int flag = 0;
  if (rng_chance(&rng, 50)) TRY(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
  if (flag) fail(player, NULL, "a receive of a tag nobody sends is complete");
  TRY(MPI_Cancel(&request));
  finish_request(player, &request, &status);
  TRY(MPI_Test_cancelled(&status, &flag));
  if (!flag) fail(player, NULL, "an unmatched receive could not be cancelled");
  unsigned char* image = malloc(bytes + 1);
  payload(step->seed, 0, image, bytes);
  if (memcmp(image, buffer, bytes) != 0) fail(player, NULL, "a cancelled receive wrote data");
  free(image);
  free(buffer);
}

static void check_null_status(const Player* player, const MPI_Status* status, const char* call) {
  int count = -7;
  MPI_Get_count(status, MPI_BYTE, &count);
  if (status->MPI_SOURCE != MPI_PROC_NULL || status->MPI_TAG != MPI_ANY_TAG || count != 0) {
    fail(player, NULL, "%s from MPI_PROC_NULL: source %d tag %d count %d", call, status->MPI_SOURCE,
         status->MPI_TAG, count);
  }
}

static void step_null(Player* player) {
  const Message* message = NULL;
  enum { BYTES = 300000 };
  char* buffer = malloc(BYTES);
  memset(buffer, 7, BYTES);
  MPI_Comm comm = player->comm[COMM_BASE];
  MPI_Status status = fresh_status(), statuses[2];
  MPI_Request requests[2];
  player->doing = "talking to MPI_PROC_NULL";
  TRY(MPI_Send(buffer, BYTES, MPI_BYTE, MPI_PROC_NULL, 1, comm));
  TRY(MPI_Recv(buffer, BYTES, MPI_BYTE, MPI_PROC_NULL, 1, comm, &status));
  check_null_status(player, &status, "Recv");
  TRY(MPI_Isend(buffer, BYTES, MPI_BYTE, MPI_PROC_NULL, 1, comm, &requests[0]));
  TRY(MPI_Irecv(buffer, BYTES, MPI_BYTE, MPI_PROC_NULL, 1, comm, &requests[1]));
  TRY(MPI_Waitall(2, requests, statuses));
#if !defined(MPICH_NUMVERSION) || MPICH_NUMVERSION >= 40100000  // 4.0 leaves the status unset
  check_null_status(player, &statuses[1], "Irecv");
#endif
  status = fresh_status();
  TRY(MPI_Probe(MPI_PROC_NULL, 1, comm, &status));
  check_null_status(player, &status, "Probe");
  status = fresh_status();
  TRY(MPI_Sendrecv_replace(buffer, BYTES, MPI_BYTE, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, comm,
                           &status));
  check_null_status(player, &status, "Sendrecv_replace");
  requests[0] = requests[1] = MPI_REQUEST_NULL;
  int index = -7;
  TRY(MPI_Waitany(2, requests, &index, &status));
  if (index != MPI_UNDEFINED) fail(player, NULL, "Waitany of null requests gave %d", index);
  TRY(MPI_Waitall(2, requests, statuses));
  for (int i = 0; i < BYTES; ++i) {
    if (buffer[i] != 7) fail(player, NULL, "MPI_PROC_NULL brought data");
  }
  free(buffer);
}

static void step_renew(Player* player, const Step* step) {
  player->doing = "making a communicator";
  if (step->comm == COMM_BASE || step->comm == COMM_SELF) return;
  comm_drop(player, step->comm);
  comm_make(player, step->comm);
}

// ---- playing a round ---------------------------------------------------------------------------

static void dawdle(Player* player) {
  int way = rng_range(&player->local, 0, 99);
  if (way < 4) usleep((useconds_t)rng_range(&player->local, 0, 400));
  if (way >= 4 && way < 9) {
    double end = MPI_Wtime() + 1e-6 * rng_range(&player->local, 1, 300);
    while (MPI_Wtime() < end) continue;
  }
}

static size_t buffered_bytes(const Player* player, const Plan* plan) {
  size_t bytes = 0;
  for (int i = 0; i < plan->count; ++i) {
    for (int j = 0; j < plan->steps[i].count; ++j) {
      const Message* message = &plan->steps[i].messages[j];
      bool buffered =
          message->send == BSEND || message->send == IBSEND || message->send == BSEND_INIT;
      if (!buffered || message->source != player->rank) continue;
      bytes += 2 * message->bytes + 4096 + 2 * MPI_BSEND_OVERHEAD;
    }
  }
  return bytes;
}

static void play_step(Player* player, const Plan* plan, int index, Op** preposted) {
  const Step* step = &plan->steps[index];
  player->step = index;
  player->now = step;
  player->at = NULL;
  player->doing = step_names[step->kind];
  player->used_step[step->kind]++;
  switch (step->kind) {
    case STEP_MESSAGE:
      step_message(player, &step->messages[0], &preposted[index]);
      break;
    case STEP_GATHER:
      step_gather(player, step);
      break;
    case STEP_EXCHANGE:
      step_exchange(player, step);
      break;
    case STEP_PERSISTENT:
      step_persistent(player, step);
      break;
    case STEP_COLLECTIVE:
      play_collective(player, step);
      break;
    case STEP_CANCEL:
      step_cancel(player, step);
      break;
    case STEP_NULL:
      step_null(player);
      break;
    case STEP_RENEW:
      step_renew(player, step);
      break;
    case STEP_PACK:
      play_pack(player, step);
      break;
    case STEP_PREPOST:
      step_prepost(player, plan, preposted);
      break;
    default:
      break;
  }
}

void play_round(Player* player, int round) {
  player->round = round;
  player->local.state = mix2(player->seed + 77, (uint64_t)round * 64 + (uint64_t)player->rank);
  Plan plan = plan_make(player, round);
  Op** preposted = calloc((size_t)plan.count, sizeof(Op*));
  size_t buffered = buffered_bytes(player, &plan);
  char* attached = NULL;
  if (buffered > 0) {
    attached = malloc(buffered);
    MPI_Buffer_attach(attached, (int)buffered);
  }
  for (int i = 0; i < plan.count; ++i) {
    play_step(player, &plan, i, preposted);
    dawdle(player);
    if (rng_chance(&player->local, 30)) complete_pending(player, rng_range(&player->local, 20, 90));
    if (player->pending_count > PENDING_MOST) complete_pending(player, 100);
  }
  while (player->pending_count > 0) complete_pending(player, 70);
  player->at = NULL;
  player->doing = "detaching the buffer";
  if (attached != NULL) {
    int size;
    void* was;
    MPI_Buffer_detach(&was, &size);
    if (was != attached) fail(player, NULL, "Buffer_detach gave another buffer");
    free(attached);
  }
  player->doing = "barrier at the end of the round";
  MPI_Barrier(player->comm[COMM_BASE]);
  check_resting(player);
  plan_free(&plan);
  free(preposted);
}
