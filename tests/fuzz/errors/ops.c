// SPDX-License-Identifier: BSD-3-Clause
//
// Requests under way in the error fuzzer (ops): their buffers, and their completion by every call
// of MPI, among null and inactive requests.
//
// When several requests complete in one call and a request fails, timing decides which requests
// have ended with that call. The trace therefore has only the final end of each op; MPI_ERR_PENDING
// never appears in it.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"

enum { MOST = 24, TAG_AGREE = 9000 };

static Op** pending;
static int pending_count, pending_room;

// ---- ops, their buffers and contents -----------------------------------------------------------

static size_t near(Rng* rng, size_t middle, int spread) {
  return middle + (size_t)(rng_range(rng, 0, 2 * spread)) - (size_t)spread;
}

size_t pick_bytes(Rng* rng) {
  int way = rng_range(rng, 0, 99);
  if (way < 10) return 0;
  if (way < 25) return 1 + rng_below(rng, 95);
  if (way < 38) return near(rng, 96, 1);
  if (way < 50) return 97 + rng_below(rng, 4000);
  if (way < 60) return 4000 + rng_below(rng, 60000);
  if (way < 70) return near(rng, 65536, 8);
  return 65536 + rng_below(rng, 300000);
}

Content content_of(Rng* rng, size_t bytes) {
  Content content = {0};
  content.element = (int)rng_below(rng, (uint32_t)element_kinds());
  content.elements = bytes / element_size_of(content.element);
  bool plain = rng_chance(rng, 60);
  content.send_layout = plain ? 0 : rng_next(rng) | 1;
  content.recv_layout = plain || rng_chance(rng, 40) ? 0 : rng_next(rng) | 1;
  content.id = rng_next(rng);
  content.room = content.elements + (rng_chance(rng, 30) ? rng_below(rng, 40) : 0);
  return content;
}

Content content_make(Rng* rng, bool may_be_too_long) {
  Content content = content_of(rng, pick_bytes(rng));
  if (!rng_chance(rng, 30) || !may_be_too_long || content.elements == 0) return content;
  size_t few = 96 / element_size_of(content.element);
  size_t rooms[] = {0,
                    1,
                    few,
                    few + 1,
                    content.elements / 2,
                    content.elements - 1,
                    rng_below(rng, (uint32_t)content.elements)};
  content.room = rooms[rng_below(rng, sizeof rooms / sizeof rooms[0])];
  if (content.room >= content.elements) content.room = content.elements - 1;
  content.too_long = true;
  return content;
}

static uint64_t guard_of(const Op* op) { return mix2(op->id, op->send ? 11 : 12); }

static Op* op_new(const Content* content, bool send) {
  Op* op = calloc(1, sizeof *op);
  op->send = send;
  op->id = content->id;
  op->request = MPI_REQUEST_NULL;
  op->bytes = content->elements * element_size_of(content->element);
  op->layout =
      layout_make(send ? content->send_layout : content->recv_layout, content->element, false);
  size_t each = (size_t)op->layout->elements;
  size_t elements = send ? content->elements : content->room;
  op->items = content->too_long && !send ? elements / each : (elements + each - 1) / each;
  op->short_of_room = !send && op->items * op->layout->size < op->bytes;
  return op;
}

// Plain Open MPI writes the whole message when its receiver reads by single copy, even if the
// receive is too short. The fuzzer therefore gives such a receive a buffer for the whole message.
#ifdef OPEN_MPI
static const bool overruns = true;
#else
static const bool overruns = false;
#endif

static void op_fill(Op* op) {
  size_t items = op->items;
  if (op->short_of_room && overruns) items = op->bytes / op->layout->size + 1;
  op->buffer = buffer_make(op->layout, items, guard_of(op));
  if (op->send) buffer_put(&op->buffer, op->layout, op->id, op->bytes);
}

Op* op_send(const Content* content, const char* format, ...) {
  Content whole = *content;  // the send type is the basic type unless the data are whole items
  Op* op = op_new(&whole, true);
  if (op->layout->elements > 0 && content->elements % (size_t)op->layout->elements != 0) {
    op_free(op);
    whole.send_layout = 0;
    op = op_new(&whole, true);
  }
  op_fill(op);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(op->name, sizeof op->name, format, arguments);
  va_end(arguments);
  return op;
}

Op* op_recv(const Content* content, const char* format, ...) {
  Op* op = op_new(content, false);
  op_fill(op);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(op->name, sizeof op->name, format, arguments);
  va_end(arguments);
  return op;
}

void op_free(Op* op) {
  if (op->buffer.raw != NULL) buffer_free(&op->buffer);
  layout_free(op->layout);
  free(op);
}

// Compares the buffer of `op` with its expected state: untouched, or the message among untouched
// bytes. Of a truncated receive, only gaps and guards are compared. Returns the outcome in words,
// for the trace.
static const char* verdict(Op* op, bool arrived) {
  static char text[80];
  ptrdiff_t first = 0;
  size_t bytes = arrived ? op->bytes : 0;
  if (op->send) {
    bytes = op->bytes;
  } else if (op->short_of_room && overruns) {
    return "not looked at";
  } else if (op->short_of_room) {
    bytes = op->items * op->layout->size;
    buffer_put(&op->buffer, op->layout, op->id, bytes);
  }
  size_t wrong = buffer_wrong(&op->buffer, op->layout, guard_of(op), op->id, bytes, &first);
  if (wrong == 0) return "as it must be";
  snprintf(text, sizeof text, "%zu wrong bytes from %td", wrong, first);
  return text;
}

// ---- the end of an op --------------------------------------------------------------------------

static const char* status_text(const MPI_Status* status) {
  static char text[96];
  int bytes = -1, cancelled = 0;
  MPI_Get_count(status, MPI_BYTE, &bytes);
  MPI_Test_cancelled(status, &cancelled);
  snprintf(text, sizeof text, "from %d tag %d bytes %d%s", status->MPI_SOURCE, status->MPI_TAG,
           bytes, cancelled ? " cancelled" : "");
  return text;
}

void op_over(Op* op, int code, const MPI_Status* status) {
  int cancelled = 0;
  if (status != NULL && op->cancelled) MPI_Test_cancelled(status, &cancelled);
  const char* content = verdict(op, code == MPI_SUCCESS && !cancelled);
  const char* handle = op->request == MPI_REQUEST_NULL ? "null" : "kept";
  if (op->send || status == NULL || op->unsure) {
    see("%s: %s, %s, %s%s", op->name, class_of(code), handle, content,
        cancelled ? ", cancelled" : "");
  } else if (code != MPI_SUCCESS) {
    see("%s: %s from %d tag %d, %s, %s", op->name, class_of(code), status->MPI_SOURCE,
        status->MPI_TAG, handle, content);
  } else {
    see("%s: %s %s, %s, %s", op->name, class_of(code), status_text(status), handle, content);
  }
  if (op->persistent && op->request != MPI_REQUEST_NULL) MPI_Request_free(&op->request);
  op_free(op);
}

void op_pend(Op* op) {
  if (pending_count == pending_room) {
    pending_room = 2 * pending_room + 16;
    pending = realloc(pending, sizeof(Op*) * (size_t)pending_room);
  }
  pending[pending_count++] = op;
}

int op_pending(void) { return pending_count; }

void finish(const char* name, MPI_Request* request) {
  MPI_Status status;
  doing(name);
  int code = MPI_Wait(request, &status);
  if (code == MPI_SUCCESS) {
    see("%s: SUCCESS %s", name, status_text(&status));
  } else {
    see("%s: %s", name, class_of(code));
  }
}

int agree(int from, int to, int value) {
  if (here.rank == from && from != to) MPI_Send(&value, 1, MPI_INT, to, TAG_AGREE, here.comm[BASE]);
  if (here.rank == to && from != to) {
    MPI_Recv(&value, 1, MPI_INT, from, TAG_AGREE, here.comm[BASE], MPI_STATUS_IGNORE);
  }
  return value;
}

void jitter(void) {
  if (rng_chance(&here.local, 12)) usleep((useconds_t)rng_range(&here.local, 50, 1500));
}

// ---- completion of several ops in a batch ------------------------------------------------------

typedef struct {
  Op* ops[MOST];  // null if the request is null or inactive
  MPI_Request requests[MOST];
  MPI_Status statuses[MOST];
  int count, left;
  bool in_one_call;
  int sends, too_short;  // number of sends; of receives without enough room
} Batch;

static void batch_over(Batch* batch, int i, int code, const MPI_Status* status) {
  Op* op = batch->ops[i];
  if (op == NULL) return;
  op->request = batch->requests[i];
  batch->ops[i] = NULL;
  batch->requests[i] = MPI_REQUEST_NULL;
  --batch->left;
  op_over(op, code, status);
}

static void wait_each(Batch* batch) {
  for (int i = 0; i < batch->count; ++i) {
    if (batch->ops[i] == NULL) continue;
    MPI_Status status;
    int code = MPI_Wait(&batch->requests[i], &status);
    batch_over(batch, i, code, &status);
  }
}

static void test_each(Batch* batch, bool look_first) {
  while (batch->left > 0) {
    for (int i = 0; i < batch->count; ++i) {
      if (batch->ops[i] == NULL) continue;
      MPI_Status status;
      int flag = 0;
      if (look_first) {
        int code = MPI_Request_get_status(batch->requests[i], &flag, &status);
        if (code != MPI_SUCCESS) flag = 1;
        if (!flag) continue;
      }
      int code = MPI_Test(&batch->requests[i], &flag, &status);
      if (code != MPI_SUCCESS || flag) batch_over(batch, i, code, &status);
    }
  }
}

// Traces and frees the operations of a batch once MPI_Waitall or MPI_Testall has returned `code`.
// With MPI_SUCCESS all are complete. With MPI_ERR_IN_STATUS each status has the error of its
// operation. Operations with MPI_ERR_PENDING are waited for one by one; so are all operations if
// `code` is another error.
static void all_over(Batch* batch, int code) {
  int class = code;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
  if (class != MPI_SUCCESS && class != MPI_ERR_IN_STATUS) {
    see("all of a batch: %s", class_of(code));
    return wait_each(batch);
  }
  for (int i = 0; i < batch->count; ++i) {
    int each = class == MPI_ERR_IN_STATUS ? batch->statuses[i].MPI_ERROR : MPI_SUCCESS;
    if (each != MPI_SUCCESS) MPI_Error_class(each, &each);
    if (each != MPI_ERR_PENDING) batch_over(batch, i, each, &batch->statuses[i]);
  }
  wait_each(batch);
}

static void complete_all_of(Batch* batch, bool test) {
  int code = MPI_SUCCESS, flag = !test;
  if (!test) code = MPI_Waitall(batch->count, batch->requests, batch->statuses);
  while (!flag && code == MPI_SUCCESS) {
    code = MPI_Testall(batch->count, batch->requests, &flag, batch->statuses);
  }
  all_over(batch, code);
}

static void complete_any_of(Batch* batch, bool test) {
  while (batch->left > 0) {
    MPI_Status status;
    int index = MPI_UNDEFINED, flag = 1;
    int code = test ? MPI_Testany(batch->count, batch->requests, &index, &flag, &status)
                    : MPI_Waitany(batch->count, batch->requests, &index, &status);
    if (code == MPI_SUCCESS && !flag) continue;
    if (index == MPI_UNDEFINED || index < 0) {
      see("any of a batch: %s, no index, %d left", class_of(code), batch->left);
      return wait_each(batch);
    }
    batch_over(batch, index, code, &status);
  }
}

static void complete_some_of(Batch* batch, bool test) {
  while (batch->left > 0) {
    int indices[MOST], count = 0;
    int code = test ? MPI_Testsome(batch->count, batch->requests, &count, indices, batch->statuses)
                    : MPI_Waitsome(batch->count, batch->requests, &count, indices, batch->statuses);
    int class = code;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    if (count == MPI_UNDEFINED || (class != MPI_SUCCESS && class != MPI_ERR_IN_STATUS)) {
      see("some of a batch: %s, count %d", class_of(code), count);
      return wait_each(batch);
    }
    for (int i = 0; i < count; ++i) {
      int each = class == MPI_ERR_IN_STATUS ? batch->statuses[i].MPI_ERROR : MPI_SUCCESS;
      batch_over(batch, indices[i], each, &batch->statuses[i]);
    }
  }
}

static void batch_complete(Batch* batch, int way) {
  switch (way) {
    case 0:
      return wait_each(batch);
    case 1:
      return test_each(batch, false);
    case 2:
      return test_each(batch, true);
    case 3:
      return complete_all_of(batch, false);
    case 4:
      return complete_all_of(batch, true);
    case 5:
      return complete_any_of(batch, false);
    case 6:
      return complete_any_of(batch, true);
    case 7:
      return complete_some_of(batch, false);
    default:
      return complete_some_of(batch, true);
  }
}

MPI_Request inactive(MPI_Comm comm, void* buffer, int count) {
  MPI_Request request;
  bool send = rng_chance(&here.local, 50) || left_out("persistent receives that are never started");
  if (send) {
    MPI_Send_init(buffer, count, MPI_INT, 0, 77, comm, &request);
  } else {
    MPI_Recv_init(buffer, count, MPI_INT, MPI_ANY_SOURCE, 77, comm, &request);
  }
  return request;
}

// Returns whether the request may be completed in the same call as the requests that the batch
// already has: the plain library fails on some combinations (left_out.c). `too_short`: the request
// is of a receive that is too short for its message.
static bool goes_with(const Batch* batch, bool send, bool too_short) {
  if (!batch->in_one_call) return true;
  bool two = too_short && batch->too_short > 0;
  if (two && left_out("two receives that are too short in one call")) return false;
  bool both = (send || batch->sends > 0) && (too_short || batch->too_short > 0);
  return !both || !left_out("a send and an error in one call");
}

static void batch_add(Batch* batch, MPI_Request request, Op* op, bool send, bool too_short) {
  batch->ops[batch->count] = op;
  batch->requests[batch->count++] = request;
  if (op != NULL) ++batch->left;
  if (send) ++batch->sends;
  if (too_short) ++batch->too_short;
}

void complete_some(int most) {
  static const char* const names[] = {"Wait",    "Test",     "Request_get_status",
                                      "Waitall", "Testall",  "Waitany",
                                      "Testany", "Waitsome", "Testsome"};
  static int room[20000];
  if (pending_count == 0) return;
  MPI_Request idle[MOST];
  int idle_count = 0, way = rng_range(&here.local, 0, 8);
  int wanted = rng_range(&here.local, 1, most < MOST ? most : MOST - 4);
  Batch batch = {.in_one_call = way > 2};
  while (batch.left < wanted && pending_count > 0 && batch.count < MOST) {
    int what = rng_range(&here.local, 0, 9);
    if (what == 0 && goes_with(&batch, true, false)) {
      int count = rng_chance(&here.local, 50) ? 20000 : 1;
      idle[idle_count] = inactive(here.comm[RACES], room, count);
      batch_add(&batch, idle[idle_count++], NULL, true, false);
    } else if (what > 1) {
      int at = rng_range(&here.local, 0, pending_count - 1);
      Op* op = pending[at];
      if (!goes_with(&batch, op->send, op->short_of_room)) break;
      pending[at] = pending[--pending_count];
      batch_add(&batch, op->request, op, op->send, op->short_of_room);
    } else {
      batch_add(&batch, MPI_REQUEST_NULL, NULL, false, false);
    }
  }
  doing(names[way]);
  batch_complete(&batch, way);
  for (int i = 0; i < idle_count; ++i) MPI_Request_free(&idle[i]);
}

void complete_all(void) {
  while (pending_count > 0) complete_some(8);
}
