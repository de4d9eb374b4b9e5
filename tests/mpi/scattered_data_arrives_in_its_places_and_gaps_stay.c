// SPDX-License-Identifier: BSD-3-Clause
//
// Large messages between buffers of different layouts; gaps are never written. The layouts:
// contiguous, strided, strided backwards, structs with gaps, several elements. The calls: blocking,
// started with types that are freed at once, exchanges, matched probes, persistent requests, and
// receives that are too short. A wrong place or a byte in a gap shows that a chunk was packed or
// unpacked at a wrong offset.
//
// run: ranks 2
// run: ranks 2 helped MH_MEMORY=cells
// run: ranks 4 helped MH_MEMORY=cells MH_CORES=8
// run: ranks 2 helped MH_MEMORY=cma MH_CORES=1
// run: ranks 4 helped MH_FAKE_NODES=2
// run: ranks 4 helped MH_FAKE_NODES=2 MH_CORES=4
#include "check.h"

enum {
  KINDS = 5,
  DOUBLES = 72000,
  ROOM = 4 * DOUBLES,  // doubles of a buffer
  ORIGIN = ROOM / 2    // index that is the type's origin: strides may be negative
};

static const double GAP = -7.5;

// A datatype and count with the signature of DOUBLES doubles. `place` has the index of each double,
// from ORIGIN.
typedef struct {
  MPI_Datatype type;
  int count;
  int place[DOUBLES];
} Side;

static void vector_of(Side* side, int blocks, int length, int stride) {
  MPI_Type_create_hvector(blocks, length, (MPI_Aint)stride * 8, MPI_DOUBLE, &side->type);
  side->count = 1;
  for (int i = 0; i < DOUBLES; ++i) side->place[i] = i / length * stride + i % length;
}

// Makes records of a double, a gap, two doubles, and a gap.
static void struct_of(Side* side) {
  int lengths[2] = {1, 2};
  MPI_Aint places[2] = {0, 24};
  MPI_Datatype types[2] = {MPI_DOUBLE, MPI_DOUBLE}, record;
  MPI_Type_create_struct(2, lengths, places, types, &record);
  MPI_Type_create_resized(record, 0, 48, &side->type);
  MPI_Type_free(&record);
  side->count = DOUBLES / 3;
  for (int i = 0; i < DOUBLES; ++i) side->place[i] = i / 3 * 6 + (i % 3 == 0 ? 0 : 2 + i % 3);
}

static Side* side_of(int kind) {
  Side* side = malloc(sizeof *side);
  if (kind == 0) vector_of(side, 1, DOUBLES, DOUBLES);
  if (kind == 1) vector_of(side, DOUBLES, 1, 2);
  if (kind == 2) vector_of(side, DOUBLES / 60, 60, -100);
  if (kind == 3) struct_of(side);
  if (kind == 4) vector_of(side, DOUBLES / 6000, 6000, 9000);
  MPI_Type_commit(&side->type);
  return side;
}

static void drop(Side* side) {
  if (side->type != MPI_DATATYPE_NULL) MPI_Type_free(&side->type);
  free(side);
}

static double value(int key, int i) { return key * 1e6 + i; }

static double* blank_doubles(void) {
  double* data = malloc(sizeof(double) * ROOM);
  for (int i = 0; i < ROOM; ++i) data[i] = GAP;
  return data;
}

static double* filled_doubles(const Side* side, int key) {
  double* data = blank_doubles();
  for (int i = 0; i < DOUBLES; ++i) data[ORIGIN + side->place[i]] = value(key, i);
  return data;
}

// Checks that only the first `doubles` doubles of the type were written. Frees the buffer.
static void check_doubles(double* data, const Side* side, int key, int doubles, const char* what) {
  for (int i = 0; i < doubles; ++i) {
    double* at = &data[ORIGIN + side->place[i]];
    CHECK(*at == value(key, i), "%s: double %d is %g, not %g", what, i, *at, value(key, i));
    *at = GAP;
  }
  for (int i = 0; i < ROOM; ++i)
    CHECK(data[i] == GAP, "%s: place %d was written", what, i - ORIGIN);
  free(data);
}

// Returns the partner of this rank: ranks of the lower half send to ranks of the upper half.
static int partner(void) { return (rank + ranks / 2) % ranks; }
static bool is_sender(void) { return rank < ranks / 2; }

static void check_count(const MPI_Status* status, const char* what) {
  int doubles = -1;
  MPI_Get_count(status, MPI_DOUBLE, &doubles);
  CHECK(doubles == DOUBLES, "%s: %d doubles", what, doubles);
}

static void blocking(int from, int to) {
  MPI_Status status;
  Side* side = side_of(is_sender() ? from : to);
  if (is_sender()) {
    double* data = filled_doubles(side, rank);
    MPI_Send(data + ORIGIN, side->count, side->type, partner(), TAG, MPI_COMM_WORLD);
    check_doubles(data, side, rank, DOUBLES, "a buffer that was sent");
  } else {
    double* data = blank_doubles();
    MPI_Recv(data + ORIGIN, side->count, side->type, partner(), TAG, MPI_COMM_WORLD, &status);
    check_count(&status, "MPI_Recv");
    check_doubles(data, side, partner(), DOUBLES, "MPI_Recv");
  }
  drop(side);
}

static void started(int from, int to) {
  enum { MESSAGES = 3 };
  Side *out = side_of(from), *in = side_of(to);
  double *sent[MESSAGES], *received[MESSAGES];
  MPI_Request requests[2 * MESSAGES];
  MPI_Status statuses[2 * MESSAGES];
  for (int i = 0; i < MESSAGES; ++i) {
    sent[i] = filled_doubles(out, 10 * i + rank);
    received[i] = blank_doubles();
    MPI_Irecv(received[i] + ORIGIN, in->count, in->type, partner(), i, MPI_COMM_WORLD,
              &requests[2 * i]);
    MPI_Isend(sent[i] + ORIGIN, out->count, out->type, partner(), i, MPI_COMM_WORLD,
              &requests[2 * i + 1]);
  }
  MPI_Type_free(&out->type);
  MPI_Type_free(&in->type);
  MPI_Waitall(2 * MESSAGES, requests, statuses);
  for (int i = 0; i < MESSAGES; ++i) {
    check_count(&statuses[2 * i], "MPI_Irecv");
    check_doubles(received[i], in, 10 * i + partner(), DOUBLES, "MPI_Irecv");
    free(sent[i]);
  }
  drop(out);
  drop(in);
}

static void exchanged(int from, int to) {
  Side *out = side_of(from), *in = side_of(to);
  double *sent = filled_doubles(out, 5 + rank), *received = blank_doubles();
  MPI_Sendrecv(sent + ORIGIN, out->count, out->type, partner(), TAG, received + ORIGIN, in->count,
               in->type, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  check_doubles(received, in, 5 + partner(), DOUBLES, "MPI_Sendrecv");
  free(sent);
  drop(out);
  drop(in);
}

static void probed(int from, int to) {
  Side* side = side_of(is_sender() ? from : to);
  if (is_sender()) {
    double* data = filled_doubles(side, rank);
    MPI_Ssend(data + ORIGIN, side->count, side->type, partner(), TAG, MPI_COMM_WORLD);
    free(data);
  } else {
    double* data = blank_doubles();
    MPI_Message message;
    MPI_Status status;
    MPI_Mprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &message, &status);
    check_count(&status, "MPI_Mprobe");
    MPI_Mrecv(data + ORIGIN, side->count, side->type, &message, &status);
    check_doubles(data, side, partner(), DOUBLES, "MPI_Mrecv");
  }
  drop(side);
}

static void persistent(int from, int to) {
  Side* side = side_of(is_sender() ? from : to);
  double* data = blank_doubles();
  MPI_Request request;
  if (is_sender()) {
    MPI_Send_init(data + ORIGIN, side->count, side->type, partner(), TAG, MPI_COMM_WORLD, &request);
  } else {
    MPI_Recv_init(data + ORIGIN, side->count, side->type, partner(), TAG, MPI_COMM_WORLD, &request);
  }
  MPI_Type_free(&side->type);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < DOUBLES && is_sender(); ++i) {
      data[ORIGIN + side->place[i]] = value(round, i);
    }
    // MPI_Pcontrol switches helping off in the second round: the MPI library then carries the data.
    MPI_Pcontrol(round == 0);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < DOUBLES && !is_sender(); ++i) {
      double got = data[ORIGIN + side->place[i]];
      CHECK(got == value(round, i), "persistent: double %d is %g", i, got);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Pcontrol(1);
  MPI_Request_free(&request);
  check_doubles(data, side, 1, DOUBLES, "a persistent request");
  drop(side);
}

// The receive is one third shorter than the message, and ends in the middle of an element of the
// sender.
static void too_short(int from) {
  Side *out = side_of(from), *in = side_of(3);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (is_sender()) {
    double* data = filled_doubles(out, rank);
    MPI_Send(data + ORIGIN, out->count, out->type, partner(), TAG, MPI_COMM_WORLD);
    free(data);
  } else {
    double* data = blank_doubles();
    int records = DOUBLES / 3 * 2 / 3;
    int code = MPI_Recv(data + ORIGIN, records, in->type, partner(), TAG, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE, "code %d", code);
    for (int i = 0; i < ROOM; ++i) {
      int at = i - ORIGIN;
      bool inside = at >= 0 && at < 6 * records && (at % 6 == 0 || at % 6 == 3 || at % 6 == 4);
      CHECK(inside || data[i] == GAP, "truncated: place %d was written", at);
    }
    free(data);
  }
  drop(out);
  drop(in);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int from = 0; from < KINDS; ++from) {
    for (int to = 0; to < KINDS; ++to) {
      blocking(from, to);
      started(from, to);
      exchanged(from, to);
      probed(from, to);
    }
    persistent(from, (from + 1) % KINDS);
    persistent((from + 2) % KINDS, from);
    too_short(from);
  }
  return end();
}
