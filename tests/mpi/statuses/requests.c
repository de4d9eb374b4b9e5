// SPDX-License-Identifier: BSD-3-Clause
//
// Makes requests of every kind, completes each by every call, and prints the outputs.
#include "statuses.h"

enum { SHORT = 100, ROOM = LARGE + 64, UNSET = -77, MOST = 8 };

// clang-format off
#define KINDS(X) X(NOTHING) X(NULL_REQUEST) X(INACTIVE_SEND) X(INACTIVE_RECEIVE)                   \
  X(INACTIVE_LARGE_SEND) X(INACTIVE_LARGE_RECEIVE) X(ENDED_SEND) X(ENDED_RECEIVE)                  \
  X(ENDED_LARGE_SEND) X(ENDED_LARGE_RECEIVE) X(SEND) X(LARGE_SEND) X(SSEND) X(LARGE_SSEND)         \
  X(SEND_OF_96) X(RECEIVE) X(LARGE_RECEIVE) X(RECEIVE_ANY) X(LARGE_RECEIVE_ANY) X(RECEIVE_OF_96)   \
  X(RECEIVE_OF_0) X(SHORT_INTO_LARGE) X(GAPS) X(SEND_INIT) X(LARGE_SEND_INIT) X(RECV_INIT)         \
  X(LARGE_RECV_INIT) X(TO_NOBODY) X(FROM_NOBODY) X(LARGE_TO_NOBODY) X(LARGE_FROM_NOBODY)           \
  X(INIT_FROM_NOBODY) X(CANCELLED) X(LARGE_CANCELLED) X(INIT_CANCELLED) X(GENERALIZED) X(BARRIER)  \
  X(SUM) X(LARGE_SUM) X(MATCHED) X(LARGE_MATCHED) X(PARTITIONED_SEND) X(PARTITIONED_RECEIVE)       \
  X(ISENDRECV) X(LARGE_ISENDRECV)
#define ERRORS(X) X(TRUNCATED) X(TRUNCATED_OF_96) X(LARGE_TRUNCATED) X(LARGE_IN_SHORT)
#define CALLS(X) X(Wait) X(Test) X(Waitany) X(Testany) X(Waitsome) X(Testsome) X(Waitall)          \
  X(Testall) X(Get_status)
#define ARRAYS(X) X(ALONE) X(AFTER_NULL) X(AFTER_INACTIVE) X(BETWEEN) X(TWICE)
#define AS_ENUM(name) name,
#define AS_NAME(name) #name,
// clang-format on
typedef enum { KINDS(AS_ENUM) KIND_COUNT, ERRORS(AS_ENUM) END } Kind;
typedef enum { CALLS(AS_ENUM) CALL_COUNT } Call;
typedef enum { ARRAYS(AS_ENUM) ARRAY_COUNT } Array;
static const char* const kind_names[] = {KINDS(AS_NAME) "?", ERRORS(AS_NAME)};
static const char* const call_names[] = {CALLS(AS_NAME)};
static const char* const array_names[] = {ARRAYS(AS_NAME)};

static unsigned char* buffers[2][MOST];
static MPI_Datatype gaps;  // LARGE bytes: every second byte of a buffer twice as long
static const MPI_Comm comm = MPI_COMM_WORLD;

static int bytes_of(Kind kind) {
  switch (kind) {
    case ENDED_LARGE_SEND:
    case ENDED_LARGE_RECEIVE:
    case INACTIVE_LARGE_SEND:
    case INACTIVE_LARGE_RECEIVE:
    case LARGE_SEND:
    case LARGE_SSEND:
    case LARGE_RECEIVE:
    case LARGE_RECEIVE_ANY:
    case LARGE_SEND_INIT:
    case LARGE_RECV_INIT:
    case LARGE_TO_NOBODY:
    case LARGE_FROM_NOBODY:
    case LARGE_CANCELLED:
    case LARGE_MATCHED:
    case LARGE_ISENDRECV:
    case LARGE_TRUNCATED:
    case LARGE_IN_SHORT:
    case GAPS:
      return LARGE;
    case SEND_OF_96:
    case RECEIVE_OF_96:
    case TRUNCATED_OF_96:
      return RTS_HEADER;
    case RECEIVE_OF_0:
      return 0;
    default:
      return SHORT;
  }
}

static int room_of(Kind kind) {
  if (kind == TRUNCATED || kind == LARGE_IN_SHORT) return 40;
  if (kind == TRUNCATED_OF_96) return 95;
  if (kind == LARGE_TRUNCATED) return LARGE - 8;
  if (kind == SHORT_INTO_LARGE || kind == RECEIVE_OF_96 || kind == RECEIVE_OF_0) return ROOM;
  return bytes_of(kind) + 8;
}

static int query(void* state, MPI_Status* status) {
  (void)state;
  MPI_Status_set_elements(status, MPI_BYTE, 77);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 3;
  status->MPI_TAG = 4;
  return MPI_SUCCESS;
}
static int release(void* state) {
  (void)state;
  return MPI_SUCCESS;
}
static int cancel_generalized(void* state, int complete) {
  (void)state;
  (void)complete;
  return MPI_SUCCESS;
}

// ---- rank 1: the other end of the messages ------------------------------------------------------

static bool rank_0_sends(Kind kind) {
  return kind == SEND || kind == LARGE_SEND || kind == SSEND || kind == LARGE_SSEND ||
         kind == SEND_OF_96 || kind == SEND_INIT || kind == LARGE_SEND_INIT || kind == ENDED_SEND ||
         kind == ENDED_LARGE_SEND;
}

static bool rank_0_receives(Kind kind) {
  if (kind > KIND_COUNT) return true;
  return (kind >= RECEIVE && kind <= GAPS) || kind == RECV_INIT || kind == LARGE_RECV_INIT ||
         kind == MATCHED || kind == LARGE_MATCHED || kind == ENDED_RECEIVE ||
         kind == ENDED_LARGE_RECEIVE;
}

static void answer(Kind kind, int tag, MPI_Request* request) {
  unsigned char* buffer = buffers[0][tag];
  const int bytes = bytes_of(kind);
  *request = MPI_REQUEST_NULL;
  if (rank_0_sends(kind)) MPI_Irecv(buffer, ROOM, MPI_BYTE, 0, tag, comm, request);
  if (rank_0_receives(kind)) MPI_Isend(buffer, bytes, MPI_BYTE, 0, tag, comm, request);
  if (kind == BARRIER) MPI_Ibarrier(comm, request);
  if (kind == SUM || kind == LARGE_SUM) {
    MPI_Iallreduce(buffer, buffers[1][tag], kind == SUM ? 1 : LARGE / 8, MPI_DOUBLE, MPI_SUM, comm,
                   request);
  }
#ifdef HAVE_MPI4
  if (kind == PARTITIONED_SEND)
    MPI_Precv_init(buffer, 2, LARGE / 2, MPI_BYTE, 0, tag, comm, MPI_INFO_NULL, request);
  if (kind == PARTITIONED_RECEIVE)
    MPI_Psend_init(buffer, 2, LARGE / 2, MPI_BYTE, 0, tag, comm, MPI_INFO_NULL, request);
  if (kind == PARTITIONED_SEND || kind == PARTITIONED_RECEIVE) MPI_Start(request);
  if (kind == PARTITIONED_RECEIVE) MPI_Pready_range(0, 1, *request);
  if (kind == ISENDRECV || kind == LARGE_ISENDRECV)
    MPI_Isendrecv(buffer, bytes, MPI_BYTE, 0, tag, buffers[1][tag], ROOM, MPI_BYTE, 0, tag, comm,
                  request);
#endif
}

static void answer_all(Kind kind, int count) {
  MPI_Request requests[MOST];
  for (int i = 0; i < count; ++i) answer(kind, i, &requests[i]);
  for (int i = 0; i < count; ++i) {
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    if (requests[i] != MPI_REQUEST_NULL) MPI_Request_free(&requests[i]);
  }
}

// ---- making a request ---------------------------------------------------------------------------

static void make_persistent(Kind kind, bool sends, int tag, MPI_Request* request) {
  unsigned char* buffer = buffers[0][tag];
  if (sends) {
    MPI_Send_init(buffer, bytes_of(kind), MPI_BYTE, 1, tag, comm, request);
  } else {
    MPI_Recv_init(buffer, room_of(kind), MPI_BYTE, 1, tag, comm, request);
  }
}

static void make_matched(Kind kind, int tag, MPI_Request* request) {
  MPI_Message message;
  MPI_Mprobe(1, tag, comm, &message, MPI_STATUS_IGNORE);
  MPI_Imrecv(buffers[0][tag], room_of(kind), MPI_BYTE, &message, request);
}

static void make_sum(Kind kind, int tag, MPI_Request* request) {
  const int count = kind == SUM ? 1 : LARGE / 8;
  MPI_Iallreduce(buffers[0][tag], buffers[1][tag], count, MPI_DOUBLE, MPI_SUM, comm, request);
}

static void make_generalized(MPI_Request* request) {
  MPI_Grequest_start(query, release, cancel_generalized, NULL, request);
  MPI_Grequest_complete(*request);
}

static void make_mpi4(Kind kind, int tag, MPI_Request* request) {
#ifdef HAVE_MPI4
  unsigned char* buffer = buffers[0][tag];
  if (kind == PARTITIONED_SEND)
    MPI_Psend_init(buffer, 2, LARGE / 2, MPI_BYTE, 1, tag, comm, MPI_INFO_NULL, request);
  if (kind == PARTITIONED_RECEIVE)
    MPI_Precv_init(buffer, 2, LARGE / 2, MPI_BYTE, 1, tag, comm, MPI_INFO_NULL, request);
  if (kind == PARTITIONED_SEND || kind == PARTITIONED_RECEIVE) MPI_Start(request);
  if (kind == PARTITIONED_SEND) MPI_Pready_range(0, 1, *request);
  if (kind == ISENDRECV || kind == LARGE_ISENDRECV)
    MPI_Isendrecv(buffer, bytes_of(kind), MPI_BYTE, 1, tag, buffers[1][tag], ROOM, MPI_BYTE, 1, tag,
                  comm, request);
#else
  (void)kind, (void)tag, (void)request;
#endif
}

// Each of the next three functions makes a request of the given kind and returns true, or returns
// false if another of the functions makes that kind.

static bool make_as_persistent(Kind kind, int tag, MPI_Request* request) {
  switch (kind) {
    case INACTIVE_SEND:
    case INACTIVE_RECEIVE:
    case INACTIVE_LARGE_SEND:
    case INACTIVE_LARGE_RECEIVE:
      make_persistent(kind, kind == INACTIVE_SEND || kind == INACTIVE_LARGE_SEND, tag, request);
      return true;
    case SEND_INIT:
    case LARGE_SEND_INIT:
    case RECV_INIT:
    case LARGE_RECV_INIT:
      make_persistent(kind, rank_0_sends(kind), tag, request);
      MPI_Start(request);
      return true;
    case ENDED_SEND:
    case ENDED_RECEIVE:
    case ENDED_LARGE_SEND:
    case ENDED_LARGE_RECEIVE:
      make_persistent(kind, rank_0_sends(kind), tag, request);
      MPI_Start(request);
      MPI_Wait(request, MPI_STATUS_IGNORE);
      return true;
    case INIT_FROM_NOBODY:
    case INIT_CANCELLED:
      MPI_Recv_init(buffers[0][tag], room_of(kind), MPI_BYTE,
                    kind == INIT_CANCELLED ? 1 : MPI_PROC_NULL, tag, comm, request);
      MPI_Start(request);
      if (kind == INIT_CANCELLED) MPI_Cancel(request);
      return true;
    default:
      return false;
  }
}

static bool make_as_send(Kind kind, int tag, MPI_Request* request) {
  unsigned char* buffer = buffers[0][tag];
  const int bytes = bytes_of(kind);
  switch (kind) {
    case SEND:
    case LARGE_SEND:
    case SEND_OF_96:
      MPI_Isend(buffer, bytes, MPI_BYTE, 1, tag, comm, request);
      return true;
    case SSEND:
    case LARGE_SSEND:
      MPI_Issend(buffer, bytes, MPI_BYTE, 1, tag, comm, request);
      return true;
    case TO_NOBODY:
    case LARGE_TO_NOBODY:
      MPI_Isend(buffer, bytes, MPI_BYTE, MPI_PROC_NULL, tag, comm, request);
      return true;
    default:
      return false;
  }
}

static bool make_as_other(Kind kind, int tag, MPI_Request* request) {
  switch (kind) {
    case NOTHING:
    case NULL_REQUEST:
      return true;
    case GENERALIZED:
      make_generalized(request);
      return true;
    case BARRIER:
      MPI_Ibarrier(comm, request);
      return true;
    case SUM:
    case LARGE_SUM:
      make_sum(kind, tag, request);
      return true;
    case MATCHED:
    case LARGE_MATCHED:
      make_matched(kind, tag, request);
      return true;
    case PARTITIONED_SEND:
    case PARTITIONED_RECEIVE:
    case ISENDRECV:
    case LARGE_ISENDRECV:
      make_mpi4(kind, tag, request);
      return true;
    default:
      return false;
  }
}

static void make_receive(Kind kind, int tag, MPI_Request* request) {
  const bool any = kind == RECEIVE_ANY || kind == LARGE_RECEIVE_ANY;
  const bool nobody = kind == FROM_NOBODY || kind == LARGE_FROM_NOBODY;
  const int source = any ? MPI_ANY_SOURCE : nobody ? MPI_PROC_NULL : 1;
  if (kind == GAPS) {
    MPI_Irecv(buffers[0][tag], 1, gaps, source, tag, comm, request);
  } else {
    MPI_Irecv(buffers[0][tag], room_of(kind), MPI_BYTE, source, tag, comm, request);
  }
  if (kind == CANCELLED || kind == LARGE_CANCELLED) MPI_Cancel(request);
}

static void make(Kind kind, int tag, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  if (make_as_persistent(kind, tag, request) || make_as_send(kind, tag, request) ||
      make_as_other(kind, tag, request)) {
    return;
  }
  make_receive(kind, tag, request);
}

// ---- the completing call and its outputs --------------------------------------------------------

typedef struct {
  int count;
  Kind kinds[MOST];
  MPI_Request requests[MOST], before[MOST];
  MPI_Status statuses[MOST];
  int code, flag, index, found, indices[MOST];
} Outcome;

static void call_once(Call call, Outcome* out) {
  MPI_Request* requests = out->requests;
  switch (call) {
    case Wait:
      out->code = MPI_Wait(&requests[out->count - 1], out->statuses);
      break;
    case Test:
      out->code = MPI_Test(&requests[out->count - 1], &out->flag, out->statuses);
      break;
    case Waitany:
      out->code = MPI_Waitany(out->count, requests, &out->index, out->statuses);
      break;
    case Testany:
      out->code = MPI_Testany(out->count, requests, &out->index, &out->flag, out->statuses);
      break;
    case Waitsome:
      out->code = MPI_Waitsome(out->count, requests, &out->found, out->indices, out->statuses);
      break;
    case Testsome:
      out->code = MPI_Testsome(out->count, requests, &out->found, out->indices, out->statuses);
      break;
    case Waitall:
      out->code = MPI_Waitall(out->count, requests, out->statuses);
      break;
    case Testall:
      out->code = MPI_Testall(out->count, requests, &out->flag, out->statuses);
      break;
    default:
      out->code = MPI_Request_get_status(requests[out->count - 1], &out->flag, out->statuses);
  }
}

static void blank_outcome(Outcome* out) {
  out->code = out->flag = out->index = out->found = UNSET;
  for (int i = 0; i < MOST; ++i) out->indices[i] = UNSET;
  for (int i = 0; i < MOST; ++i) out->statuses[i] = fresh_status();
}

// Repeats the completing call until a request is complete or the call fails. Blanks all outputs
// before each call, so that they show what the last call wrote.
static void complete(Call call, Outcome* out) {
  do {
    blank_outcome(out);
    call_once(call, out);
  } while (out->code == MPI_SUCCESS && (out->flag == 0 || (call == Testsome && out->found == 0)));
}

// Returns whether the status must describe a message. The standard leaves the status open for
// sends, collectives and cancelled receives, and the byte count for truncated messages. Libraries
// leave the old contents.
static bool has_a_message(Kind kind) {
  if (kind == TO_NOBODY || kind == LARGE_TO_NOBODY || kind == PARTITIONED_SEND) return false;
  if (kind >= CANCELLED && kind <= INIT_CANCELLED) return false;
  if ((kind == ISENDRECV || kind == LARGE_ISENDRECV) && !is_open_mpi()) return false;
  return !(kind >= BARRIER && kind <= LARGE_SUM) &&
         (!rank_0_sends(kind) || kind == ENDED_SEND || kind == ENDED_LARGE_SEND);
}

static void print_status_of(Kind kind, const MPI_Status* status) {
  int cancelled = 0;
  if (kind > KIND_COUNT) {
    print_error(status);
    return;
  }
  if (has_a_message(kind)) {
    print_status(status);
    return;
  }
  MPI_Test_cancelled(status, &cancelled);
  print(" cancelled %d error %x", kind >= CANCELLED && kind <= INIT_CANCELLED ? cancelled : 0,
        (unsigned)status->MPI_ERROR);
}

// Returns the kind of the request to which the i-th status of the call belongs, or NULL_REQUEST.
static Kind kind_of_status(Call call, const Outcome* out, int i) {
  int at = i;
  if (call == Wait || call == Test || call == Get_status) at = out->count - 1;
  if (call == Waitany || call == Testany) at = i == 0 ? out->index : -1;
  if (call == Waitsome || call == Testsome) at = i < out->found ? out->indices[i] : -1;
  return at >= 0 && at < out->count ? out->kinds[at] : NULL_REQUEST;
}

static void print_outcome(Call call, const Outcome* out) {
  print(" class %d flag %d index %d found %d indices", class_of(out->code), out->flag, out->index,
        out->found);
  for (int i = 0; i < out->count; ++i) print(" %d", out->indices[i]);
  print(" requests");
  for (int i = 0; i < out->count; ++i) {
    const bool is_null = out->requests[i] == MPI_REQUEST_NULL;
    print(" %s", is_null ? "null" : out->requests[i] == out->before[i] ? "same" : "other");
  }
  print(" statuses");
  for (int i = 0; i < out->count || i == 0; ++i) {
    print_status_of(kind_of_status(call, out, i), &out->statuses[i]);
  }
}

static bool wants_neighbours(Call call) { return call >= Waitany && call <= Testall; }

static void add(Kind kind, int tag, Outcome* out) {
  out->kinds[out->count] = kind;
  make(kind, tag, &out->requests[out->count++]);
}

static void make_array(Kind kind, Array array, Outcome* out) {
  out->count = 0;
  if (kind == NOTHING) return;
  if (array == AFTER_NULL || array == BETWEEN) add(NULL_REQUEST, 0, out);
  if (array == AFTER_INACTIVE || array == BETWEEN) add(INACTIVE_RECEIVE, 7, out);
  add(kind, 0, out);
  if (array == TWICE) add(kind, 1, out);
  if (array == BETWEEN) add(INACTIVE_LARGE_SEND, 7, out);
  if (array == BETWEEN) add(NULL_REQUEST, 0, out);
  memcpy(out->before, out->requests, sizeof out->before);
}

static void end_array(Outcome* out) {
  for (int i = 0; i < out->count; ++i) {
    MPI_Request* request = &out->requests[i];
    if (*request == MPI_REQUEST_NULL) continue;
    MPI_Wait(request, MPI_STATUS_IGNORE);
    if (*request != MPI_REQUEST_NULL) MPI_Request_free(request);
  }
}

static void show(Kind kind, Call call, Array array) {
  Outcome out;
  if (rank == 1) {
    answer_all(kind, array == TWICE ? 2 : 1);
    return;
  }
  print("%s %s %s:", call_names[call], array_names[array], kind_names[kind]);
  make_array(kind, array, &out);
  complete(call, &out);
  print_outcome(call, &out);
  // MPICH 5 loses the status of a persistent receive after MPI_Request_get_status has returned it
  // once, so the wait that follows would show nothing.
  const bool is_forgotten = is_mpich5() && (kind == RECV_INIT || kind == LARGE_RECV_INIT);
  if (call == Get_status && !is_forgotten) {
    complete(Wait, &out);
    print(" then");
    print_outcome(Wait, &out);
  }
  print("\n");
  end_array(&out);
}

static bool has_a_meaning(Kind kind, Call call, Array array) {
  if (kind == NOTHING) return array == ALONE && wants_neighbours(call);
  if (array != ALONE && !wants_neighbours(call)) return false;
#ifndef HAVE_MPI4
  if (kind >= PARTITIONED_SEND && kind <= LARGE_ISENDRECV) return false;
#elif defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
  // MPICH 4.0 frees the datatypes of MPI_Isendrecv once too often, so these requests are left out.
  if (kind == ISENDRECV || kind == LARGE_ISENDRECV) return false;
#endif
  // MPI_Testall of MPICH fails for partitioned requests, so it is not tested with them.
  const bool is_partitioned = kind == PARTITIONED_SEND || kind == PARTITIONED_RECEIVE;
  if (is_partitioned && call == Testall && !is_open_mpi()) return false;
  // After the error of one request, some libraries report the other requests of the array as
  // pending; others test them. A request that fails is therefore alone in the arrays of MPI_Waitall
  // and MPI_Testall.
  if (kind > KIND_COUNT && (call == Waitall || call == Testall)) return array == ALONE;
  // Open MPI may free an inactive request that lies in the memory of an earlier failed request, so
  // a request that fails is alone in its array, or behind a null request.
  if (kind > KIND_COUNT && array != AFTER_NULL && is_open_mpi()) return array == ALONE;
  // With the array TWICE (two requests of the kind), timing decides how many requests a call
  // completes, unless the call completes all.
  return array != TWICE || call == Waitall || call == Testall;
}

void show_requests(bool with_errors) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);  // each source file has its own `rank` (check.h)
  for (int i = 0; i < MOST; ++i) {
    buffers[0][i] = calloc(2, ROOM);
    buffers[1][i] = calloc(2, ROOM);
  }
  MPI_Type_vector(LARGE, 1, 2, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  const int first = with_errors ? KIND_COUNT + 1 : 0, end = with_errors ? END : KIND_COUNT;
  for (int kind = first; kind < end; ++kind) {
    for (int call = 0; call < CALL_COUNT; ++call) {
      for (int array = 0; array < ARRAY_COUNT; ++array) {
        if (!has_a_meaning((Kind)kind, (Call)call, (Array)array)) continue;
        show((Kind)kind, (Call)call, (Array)array);
        alarm(STUCK_SECONDS);
        MPI_Barrier(MPI_COMM_WORLD);
      }
    }
  }
  MPI_Type_free(&gaps);
  for (int i = 0; i < MOST; ++i) free(buffers[0][i]);
  for (int i = 0; i < MOST; ++i) free(buffers[1][i]);
}
