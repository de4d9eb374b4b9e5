// SPDX-License-Identifier: BSD-3-Clause
//
// Large noncontiguous messages to another node follow the standard: true sizes in probes and polls,
// wildcards, many at once in any order of completion, receives that are far too short, cancelled
// and freed requests. Small messages of the size of an RTS header are among them, and some
// receivers are in a collective when a message arrives.
//
// run: ranks 4 helped MH_FAKE_NODES=2
// run: ranks 4 helped MH_FAKE_NODES=2 MH_CORES=4 MH_MEMORY=cells
// run: ranks 4 helped MH_FAKE_NODES=2 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_eager_limit=4194304
#include "check.h"

enum { ROWS = 3000, WIDTH = 20, STRIDE = 32, DOUBLES = ROWS * WIDTH, ROOM = ROWS * STRIDE };

static MPI_Datatype rows;  // the type of DOUBLES doubles in rows with gaps

static void make_rows(void) {
  MPI_Type_vector(ROWS, WIDTH, STRIDE, MPI_DOUBLE, &rows);
  MPI_Type_commit(&rows);
}

static int partner(void) { return (rank + ranks / 2) % ranks; }
static bool is_sender(void) { return rank < ranks / 2; }

static double* matrix(int key) {
  double* data = malloc(sizeof(double) * ROOM);
  for (int i = 0; i < ROOM; ++i) data[i] = key < 0 ? -1 : key * 1e6 + i;
  return data;
}

// Checks that the rows were received and the gaps are unchanged. Frees the matrix.
static void check_rows(double* data, int key, const char* what) {
  for (int i = 0; i < ROOM; ++i) {
    double wanted = i % STRIDE < WIDTH && i / STRIDE < ROWS ? key * 1e6 + i : -1;
    CHECK(data[i] == wanted, "%s: place %d is %g, not %g", what, i, data[i], wanted);
  }
  free(data);
}

static void check_dense(double* data, int key, const char* what) {
  for (int i = 0; i < DOUBLES; ++i) {
    double wanted = key * 1e6 + i / WIDTH * STRIDE + i % WIDTH;
    CHECK(data[i] == wanted, "%s: double %d is %g, not %g", what, i, data[i], wanted);
  }
  free(data);
}

static void check_size(const MPI_Status* status, int source, int tag, const char* what) {
  int doubles = -1;
  MPI_Get_count(status, MPI_DOUBLE, &doubles);
  CHECK(doubles == DOUBLES, "%s: %d doubles", what, doubles);
  CHECK(status->MPI_SOURCE == source && status->MPI_TAG == tag, "%s: source %d, tag %d", what,
        status->MPI_SOURCE, status->MPI_TAG);
}

// Messages are probed and then received, among short messages of the size of an RTS header.
static void probed(void) {
  if (is_sender()) {
    unsigned char* small = filled(RTS_HEADER, 3);
    double* data = matrix(1);
    MPI_Request requests[2];
    MPI_Isend(small, RTS_HEADER, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(data, 1, rows, partner(), TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    free(small);
    free(data);
    return;
  }
  MPI_Status status;
  MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  check_status(&status, partner(), TAG, RTS_HEADER);
  unsigned char small[RTS_HEADER];
  MPI_Recv(small, RTS_HEADER, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, &status);
  check_status(&status, partner(), TAG, RTS_HEADER);
  check_bytes(small, RTS_HEADER, 3, "a small message");
  int flag = 0;
  while (flag == 0) MPI_Iprobe(partner(), TAG, MPI_COMM_WORLD, &flag, &status);
  check_size(&status, partner(), TAG, "MPI_Iprobe");
  double* data = malloc(sizeof(double) * DOUBLES);
  MPI_Recv(data, DOUBLES, MPI_DOUBLE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
  check_size(&status, partner(), TAG, "MPI_Recv");
  check_dense(data, 1, "a probed message");
}

// Receives MANY messages that are under way at once. The receives are started in the reverse order
// of the sends, and MPI_Waitsome completes them.
static void many(void) {
  enum { MANY = 12 };
  double *sent[MANY], *received[MANY];
  MPI_Request requests[2 * MANY];
  for (int i = 0; i < MANY; ++i) {
    sent[i] = matrix(i);
    received[i] = matrix(-1);
    MPI_Isend(sent[i], 1, rows, partner(), i, MPI_COMM_WORLD, &requests[MANY + i]);
  }
  for (int i = MANY - 1; i >= 0; --i) {
    MPI_Irecv(received[i], 1, rows, i % 2 == 0 ? MPI_ANY_SOURCE : partner(), i, MPI_COMM_WORLD,
              &requests[i]);
  }
  for (int left = 2 * MANY; left > 0;) {
    int found = 0, indices[2 * MANY];
    MPI_Status statuses[2 * MANY];
    MPI_Waitsome(2 * MANY, requests, &found, indices, statuses);
    for (int i = 0; i < found; ++i) {
      if (indices[i] < MANY) check_size(&statuses[i], partner(), indices[i], "MPI_Waitsome");
    }
    left -= found;
  }
  for (int i = 0; i < MANY; ++i) {
    check_rows(received[i], i, "one of many");
    free(sent[i]);
  }
}

static void polled(void) {
  double *sent = matrix(2), *received = matrix(-1);
  MPI_Request requests[2];
  MPI_Irecv(received, 1, rows, partner(), TAG, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(sent, 1, rows, partner(), TAG, MPI_COMM_WORLD, &requests[1]);
  for (int flag = 0; flag == 0;) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
  check_rows(received, 2, "a polled message");
  free(sent);
}

// The receiver waits in a collective while the message arrives. The sender enters the collective
// after its blocking send.
static void received_after_a_collective(void) {
  double *sent = matrix(4), *received = matrix(-1);
  MPI_Request request;
  int one = 1, all = 0;
  if (is_sender()) {
    MPI_Send(sent, 1, rows, partner(), TAG, MPI_COMM_WORLD);
  } else {
    MPI_Irecv(received, 1, rows, partner(), TAG, MPI_COMM_WORLD, &request);
  }
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(all == ranks, "sum %d", all);
  if (is_sender()) {
    free(received);
  } else {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check_rows(received, 4, "received after a collective");
  }
  free(sent);
}

// Cancels a send. Its message arrives, or MPI_Test_cancelled says that it was cancelled; another
// message is sent in the second case. If the receiver was slow in an earlier test, the MPI library
// carries the message, and Open MPI may wait for the receive before MPI_Wait of the cancelled send
// returns.
static void cancelled(void) {
  enum { FIRST = 5, SECOND = 15 };
  MPI_Request request;
  int gone = 0;
  if (is_sender()) {
    double* data = matrix(FIRST);
    MPI_Status status;
    MPI_Isend(data, 1, rows, partner(), TAG, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &gone);
    MPI_Send(&gone, 1, MPI_INT, partner(), TAG + 1, MPI_COMM_WORLD);
    free(data);
    if (!gone) return;
    data = matrix(SECOND);
    MPI_Send(data, 1, rows, partner(), TAG, MPI_COMM_WORLD);
    free(data);
    return;
  }
  double* data = matrix(-1);
  MPI_Irecv(&gone, 1, MPI_INT, partner(), TAG + 1, MPI_COMM_WORLD, &request);
  MPI_Recv(data, 1, rows, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check_rows(data, gone ? SECOND : FIRST, "what was not cancelled");
}

// All messages are sent before the first receive starts, and are received last first. Pieces of a
// message without a receive must not block the pieces of another.
static void received_in_another_order(void) {
  enum { MANY = 8 };
  MPI_Request requests[MANY];
  double* data[MANY];
  for (int i = 0; i < MANY; ++i) {
    data[i] = matrix(is_sender() ? 10 + i : -1);
    if (is_sender()) {
      MPI_Isend(data[i], 1, rows, partner(), TAG + i, MPI_COMM_WORLD, &requests[i]);
      for (int flag = 0, tries = 0; !flag && tries < 100; ++tries) {
        MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
      }
    }
  }
  if (is_sender()) MPI_Send(NULL, 0, MPI_BYTE, partner(), TAG + MANY, MPI_COMM_WORLD);
  if (!is_sender()) {
    MPI_Recv(NULL, 0, MPI_BYTE, partner(), TAG + MANY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = MANY - 1; i >= 0; --i) {
      MPI_Recv(data[i], 1, rows, partner(), TAG + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      check_rows(data[i], 10 + i, "received last first");
    }
    return;
  }
  MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < MANY; ++i) free(data[i]);
}

static void freed(void) {
  static double *sent, *received;
  MPI_Request request;
  if (is_sender()) {
    sent = matrix(6);
    MPI_Isend(sent, 1, rows, partner(), TAG, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Send(NULL, 0, MPI_BYTE, partner(), TAG + 1, MPI_COMM_WORLD);
  } else {
    received = matrix(-1);
    MPI_Recv(NULL, 0, MPI_BYTE, partner(), TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(received, 1, rows, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_rows(received, 6, "sent with a freed request");
  }
}

// Receives are too short even for an RTS header: the library reports the error, and no state is
// left. Senders and receivers swap roles, because the receiver of the earlier tests was late in
// them, so its sender sends no pieces to it any more.
static void much_too_short(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (!is_sender()) {
    double* data = matrix(7);
    MPI_Send(data, 1, rows, partner(), TAG, MPI_COMM_WORLD);
    free(data);
  } else {
    double few[2];
    int code = MPI_Recv(few, 2, MPI_DOUBLE, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE, "code %d", code);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  make_rows();
  probed();
  many();
  polled();
  cancelled();
  received_in_another_order();
  freed();
  received_after_a_collective();
  much_too_short();
  MPI_Type_free(&rows);
  return end();
}
