// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the outputs of blocking receives, exchanges and probes.
#include "statuses.h"

enum { ROOM = LARGE + 64, UNSET = -77, LAST_TAG = 9 };

// clang-format off
#define CALLS(X) X(Recv) X(Sendrecv) X(Sendrecv_replace) X(Probe) X(Iprobe) X(Mprobe) X(Improbe)   \
  X(Mprobe_Imrecv) X(Improbe_and_none)
#define AS_ENUM(name) name,
#define AS_NAME(name) #name,
// clang-format on
typedef enum { CALLS(AS_ENUM) CALL_COUNT } Call;
static const char* const call_names[] = {CALLS(AS_NAME)};

// A message and its receive. The receive has room for `room` bytes.
typedef struct {
  const char* name;
  int bytes, room, source, tag;
  bool is_ordinary_96;  // an ordinary message of 96 bytes with the tag TAG precedes it
} Case;

static const MPI_Comm comm = MPI_COMM_WORLD;
static unsigned char *buffer, *other;

static const char* name_of(MPI_Message message) {
  if (message == MPI_MESSAGE_NULL) return "null";
  return message == MPI_MESSAGE_NO_PROC ? "nobody's" : "another";
}

static void answer(Call call, const Case* one) {
  if (one->is_ordinary_96) MPI_Send(buffer, RTS_HEADER, MPI_BYTE, 0, TAG, comm);
  if (one->source == MPI_PROC_NULL) return;
  if (call == Sendrecv || call == Sendrecv_replace) {
    MPI_Sendrecv(buffer, one->bytes, MPI_BYTE, 0, TAG, other, ROOM, MPI_BYTE, 0, TAG, comm,
                 MPI_STATUS_IGNORE);
  } else {
    MPI_Send(buffer, one->bytes, MPI_BYTE, 0, TAG, comm);
  }
}

static void print_message(const char* call, int code, int flag, MPI_Message message,
                          const MPI_Status* status) {
  print(" %s class %d flag %d", call, class_of(code), flag);
  // If the call failed, the standard leaves the status open, except for the error.
  if (code != MPI_SUCCESS) {
    print_error(status);
    return;
  }
  print(" message %s", name_of(message));
  print_status(status);
}

static void receive_matched(bool start, const Case* one, MPI_Message* message) {
  MPI_Status status = fresh_status();
  MPI_Request request = MPI_REQUEST_NULL;
  if (!start) {
    const int code = MPI_Mrecv(buffer, one->room, MPI_BYTE, message, &status);
    print_message("Mrecv", code, 0, *message, &status);
    return;
  }
  const int code = MPI_Imrecv(buffer, one->room, MPI_BYTE, message, &request);
  print_message("Imrecv", code, request == MPI_REQUEST_NULL, *message, &status);
  if (code != MPI_SUCCESS) return;
  const int waited = MPI_Wait(&request, &status);
  print_message("Wait", waited, request == MPI_REQUEST_NULL, *message, &status);
}

static void probe(Call call, const Case* one) {
  MPI_Status status = fresh_status();
  MPI_Message message = MPI_MESSAGE_NULL;
  int flag = UNSET, code = UNSET;
  if (call == Probe) code = MPI_Probe(one->source, one->tag, comm, &status);
  if (call == Mprobe || call == Mprobe_Imrecv)
    code = MPI_Mprobe(one->source, one->tag, comm, &message, &status);
  while (call == Iprobe && flag != 1) {
    status = fresh_status();
    code = MPI_Iprobe(one->source, one->tag, comm, &flag, &status);
  }
  while ((call == Improbe || call == Improbe_and_none) && flag != 1) {
    status = fresh_status();
    code = MPI_Improbe(one->source, one->tag, comm, &flag, &message, &status);
  }
  print_message(call_names[call], code, flag, message, &status);
  if (call == Improbe_and_none) {
    MPI_Message second = MPI_MESSAGE_NULL;
    status = fresh_status();
    flag = UNSET;
    code = MPI_Improbe(one->source, LAST_TAG, comm, &flag, &second, &status);
    print_message("Improbe", code, flag, second, &status);
  }
  if (message != MPI_MESSAGE_NULL) {
    receive_matched(call == Mprobe_Imrecv || call == Improbe_and_none, one, &message);
  } else {
    status = fresh_status();
    code = MPI_Recv(buffer, one->room, MPI_BYTE, one->source, one->tag, comm, &status);
    print_message("Recv", code, 0, message, &status);
  }
}

static void show(Call call, const Case* one) {
  const int to = one->source == MPI_PROC_NULL ? MPI_PROC_NULL : 1;
  MPI_Status status = fresh_status();
  int code = MPI_SUCCESS;
  if (one->is_ordinary_96) MPI_Recv(buffer, RTS_HEADER, MPI_BYTE, 1, TAG, comm, MPI_STATUS_IGNORE);
  print("%s %s:", call_names[call], one->name);
  switch (call) {
    case Recv:
      code = MPI_Recv(buffer, one->room, MPI_BYTE, one->source, one->tag, comm, &status);
      break;
    case Sendrecv:
      code = MPI_Sendrecv(other, one->bytes, MPI_BYTE, to, TAG, buffer, one->room, MPI_BYTE,
                          one->source, one->tag, comm, &status);
      break;
    case Sendrecv_replace:
      code = MPI_Sendrecv_replace(buffer, one->room, MPI_BYTE, to, TAG, one->source, one->tag, comm,
                                  &status);
      break;
    default:
      probe(call, one);
      print("\n");
      return;
  }
  print_message(call_names[call], code, 0, MPI_MESSAGE_NULL, &status);
  print("\n");
}

static void show_all(const Case* cases, int count) {
  for (int i = 0; i < count; ++i) {
    for (int call = 0; call < CALL_COUNT; ++call) {
      // The second probe of this call must find nothing, but a probe for MPI_PROC_NULL always finds
      // MPI_MESSAGE_NO_PROC.
      if (call == Improbe_and_none && cases[i].source == MPI_PROC_NULL) continue;
      if (rank == 0) show((Call)call, &cases[i]);
      if (rank == 1) answer((Call)call, &cases[i]);
      alarm(STUCK_SECONDS);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

void show_blocking_calls(bool with_errors) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);  // each source file has its own `rank` (check.h)
  const Case good[] = {
      {"nothing", 0, 100, 1, TAG, false},
      {"nothing into nothing", 0, 0, 1, TAG, false},
      {"short", 100, 100, 1, TAG, false},
      {"short from anyone", 100, 120, MPI_ANY_SOURCE, MPI_ANY_TAG, false},
      {"short into large", 100, ROOM, 1, MPI_ANY_TAG, false},
      {"large", LARGE, LARGE, 1, TAG, false},
      {"large from anyone", LARGE, ROOM, MPI_ANY_SOURCE, MPI_ANY_TAG, false},
      {"from nobody", 0, 100, MPI_PROC_NULL, TAG, false},
      {"large from nobody", 0, ROOM, MPI_PROC_NULL, TAG, false},
      {"96 bytes", RTS_HEADER, RTS_HEADER, 1, TAG, false},
      {"96 bytes into large", RTS_HEADER, ROOM, MPI_ANY_SOURCE, TAG, false},
      {"large after 96 bytes", LARGE, ROOM, MPI_ANY_SOURCE, MPI_ANY_TAG, true},
      {"short after 96 bytes", 100, 100, MPI_ANY_SOURCE, MPI_ANY_TAG, true},
  };
  const Case bad[] = {
      {"short, cut", 100, 40, 1, TAG, false},
      {"96 bytes, cut", RTS_HEADER, 95, 1, TAG, false},
      {"large, cut", LARGE, LARGE - 8, 1, TAG, false},
      {"large into short", LARGE, 40, 1, TAG, false},
      {"large into 96 bytes", LARGE, RTS_HEADER, MPI_ANY_SOURCE, TAG, false},
  };
  buffer = calloc(2, ROOM);
  other = calloc(2, ROOM);
  if (with_errors) {
    show_all(bad, (int)(sizeof bad / sizeof bad[0]));
  } else {
    show_all(good, (int)(sizeof good / sizeof good[0]));
  }
  free(buffer);
  free(other);
}
