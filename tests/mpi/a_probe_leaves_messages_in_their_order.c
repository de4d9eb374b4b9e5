// SPDX-License-Identifier: BSD-3-Clause
//
// A probe does not change the order of messages. A receive with MPI_ANY_TAG (MPI_Recv, Irecv,
// Mprobe or Improbe) gets the oldest message, and a probe reports the size of the oldest message
// with its tag. Large messages and messages of an RTS header's size have the same tags. With
// threads, one thread polls while another receives. A probe that took a message to read its size,
// and gave it back too late, would let a younger message overtake it.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 2 helped MH_FAKE_NODES=2
// run: ranks 2 helped heap
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

enum { MESSAGES = 12, TAGS = 3, LAST_TAG = 99, ROUNDS = 40, WAYS = 4, IN_ORDER = 300 };

static const int sizes[] = {RTS_HEADER, LARGE, 10, 3000, LARGE + 8, RTS_HEADER};

typedef struct {
  int tag, bytes, key;
} Sent;

static unsigned state;
static int any_below(int end) {
  state = state * 1664525u + 1013904223u;
  return (int)((state >> 8) % (unsigned)end);
}

static void send_all(const Sent* sent) {
  MPI_Request requests[MESSAGES + 1];
  unsigned char* data[MESSAGES];
  for (int i = 0; i < MESSAGES; ++i) {
    data[i] = filled((size_t)sent[i].bytes, sent[i].key);
    MPI_Isend(data[i], sent[i].bytes, MPI_BYTE, 1, sent[i].tag, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Isend(NULL, 0, MPI_BYTE, 1, LAST_TAG, MPI_COMM_WORLD, &requests[MESSAGES]);
  MPI_Waitall(MESSAGES + 1, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < MESSAGES; ++i) free(data[i]);
}

// The index of the oldest remaining message with this tag, or -1.
static int oldest(const Sent* sent, const bool* gone, int tag) {
  for (int i = 0; i < MESSAGES; ++i) {
    if (!gone[i] && (tag == MPI_ANY_TAG || sent[i].tag == tag)) return i;
  }
  return -1;
}

static void look(const Sent* wanted, int source, int tag) {
  MPI_Status status;
  int flag = 0;
  if (any_below(2)) {
    MPI_Probe(source, tag, MPI_COMM_WORLD, &status);
  } else {
    while (!flag) MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, &status);
  }
  check_status(&status, 0, wanted->tag, wanted->bytes);
}

static void take(const Sent* wanted, int source, int tag) {
  static const char* const names[WAYS] = {"MPI_Recv", "MPI_Irecv", "MPI_Mprobe", "MPI_Improbe"};
  const int way = any_below(WAYS);
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Status status;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  unsigned char* data = blank(LARGE + 100);
  int flag = 0;
  if (way == 0) MPI_Recv(data, LARGE + 100, MPI_BYTE, source, tag, comm, &status);
  if (way == 1) MPI_Irecv(data, LARGE + 100, MPI_BYTE, source, tag, comm, &request);
  if (way == 2) MPI_Mprobe(source, tag, comm, &message, &status);
  while (way == 3 && !flag) MPI_Improbe(source, tag, comm, &flag, &message, &status);
  if (message != MPI_MESSAGE_NULL) {
    check_status(&status, 0, wanted->tag, wanted->bytes);
    MPI_Mrecv(data, LARGE + 100, MPI_BYTE, &message, &status);
  }
  if (request != MPI_REQUEST_NULL) MPI_Wait(&request, &status);
  check_status(&status, 0, wanted->tag, wanted->bytes);
  check_bytes(data, (size_t)wanted->bytes, wanted->key, names[way]);
  check_blank(data, (size_t)wanted->bytes, LARGE + 100, names[way]);
  free(data);
}

static void receive_all(const Sent* sent) {
  bool gone[MESSAGES] = {false};
  MPI_Recv(NULL, 0, MPI_BYTE, 0, LAST_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  while (oldest(sent, gone, MPI_ANY_TAG) >= 0) {
    const int tag = any_below(2) ? MPI_ANY_TAG : 1 + any_below(TAGS);
    const int source = any_below(2) ? MPI_ANY_SOURCE : 0, at = oldest(sent, gone, tag);
    if (at < 0) continue;
    if (any_below(3)) {
      look(&sent[at], source, tag);
    } else {
      take(&sent[at], source, tag);
      gone[at] = true;
    }
  }
}

// ---- with threads -------------------------------------------------------------------------------

static MPI_Comm polled;
static atomic_int received;

static void* poll_all(void* argument) {
  (void)argument;
  while (atomic_load(&received) < IN_ORDER) {
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, polled, &flag, MPI_STATUS_IGNORE);
  }
  return NULL;
}

static int size_in_order(int number) { return number % 2 ? RTS_HEADER : THRESHOLD + number; }

static void send_in_order(void) {
  for (int i = 0; i < IN_ORDER; ++i) {
    unsigned char* data = filled((size_t)size_in_order(i), i);
    MPI_Request request;
    MPI_Isend(data, size_in_order(i), MPI_BYTE, 1, i % TAGS, polled, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(data);
  }
}

static void receive_in_order(void) {
  pthread_t poller;
  unsigned char* data = blank(THRESHOLD + IN_ORDER);
  pthread_create(&poller, NULL, poll_all, NULL);
  for (int i = 0; i < IN_ORDER; ++i) {
    MPI_Status status;
    MPI_Recv(data, THRESHOLD + IN_ORDER, MPI_BYTE, 0, MPI_ANY_TAG, polled, &status);
    check_status(&status, 0, i % TAGS, size_in_order(i));
    check_bytes(data, (size_t)size_in_order(i), i, "a message in order");
    atomic_store(&received, i + 1);
  }
  pthread_join(poller, NULL);
  free(data);
}

int main(int argc, char** argv) {
  const bool has_threads = begin_with_threads(&argc, &argv);
  for (int round = 0; round < ROUNDS; ++round) {
    Sent sent[MESSAGES];
    state = (unsigned)round;
    for (int i = 0; i < MESSAGES; ++i) {
      sent[i] = (Sent){1 + any_below(TAGS), sizes[any_below(6)], round * MESSAGES + i};
    }
    if (rank == 0) send_all(sent);
    if (rank == 1) receive_all(sent);
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &polled);
  if (has_threads && rank == 0) send_in_order();
  if (has_threads && rank == 1) receive_in_order();
  MPI_Comm_free(&polled);
  return end();
}
