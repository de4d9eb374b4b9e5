// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 sends long messages to rank 1, on a communicator that has the hint post_comm_access=$HINT.
// For each message, rank 1 finds out which end of its buffer changes first, and prints how often it
// was the low end and how often the high end. A message whose copy rank 1 did not see counts for
// neither end.
//
// MADE selects the call that gives the communicator its hint, HOW the process that moves the data.
// With `job`, the receiver moves the data while the sender sleeps outside MPI. With `cells`, both
// ends move the data, and the program is run with MH_MEMORY=cells. With `push`, the sender moves
// the data while the receiver is outside MPI. ROUNDS is the number of messages.
#include <pthread.h>

#include "../check.h"

// LOW is behind the first bytes of the buffer, which receive the RTS header.
enum { BYTES = 8 << 20, LOW = 4096, HIGH = BYTES - 1 };

static const char* text(const char* name, const char* otherwise) {
  const char* found = getenv(name);
  return found != NULL ? found : otherwise;
}

static MPI_Info hint(void) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "post_comm_access", text("HINT", "random"));
  return info;
}

static MPI_Comm hinted(const char* made) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Info info = hint();
  const int other = 1 - rank, one = 1;
  if (strcmp(made, "set_info") == 0) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_info(comm, info);
  } else if (strcmp(made, "dup") == 0) {
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  } else if (strcmp(made, "split") == 0) {
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, info, &comm);
  } else if (strcmp(made, "graph") == 0) {
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &other, &one, info, 0, &comm);
  } else if (strcmp(made, "adjacent graph") == 0) {
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &other, &one, 1, &other, &one, info, 0,
                                   &comm);
  }
  CHECK(comm != MPI_COMM_NULL, "no communicator is made by '%s'", made);
  MPI_Info_free(&info);
  return comm;
}

// ---- The receiver watches its buffer ------------------------------------------------------------

enum first { kLow, kHigh, kUnseen, kFirsts };
static volatile unsigned char* watched;
static volatile bool watching;

// Watches the low and the high end of the buffer. Returns the end that has changed while the other
// end, tested later, has not.
static enum first first_change(void) {
  for (;;) {
    const bool low_before = watched[LOW] != 0;
    const bool high = watched[HIGH] != 0;
    const bool low = watched[LOW] != 0;
    if (high && !low) return kHigh;
    if (low_before && !high) return kLow;
    if (high && low) return kUnseen;
  }
}

static void* watch(void* result) {
  watching = true;
  *(enum first*)result = first_change();
  return NULL;
}

// ---- Sending and receiving a message ------------------------------------------------------------

static void send(MPI_Comm comm, const char* how, unsigned char* data) {
  memset(data, 1, BYTES);
  if (strcmp(how, "job") != 0) {
    MPI_Send(data, BYTES, MPI_BYTE, 1, TAG, comm);
    return;
  }
  MPI_Request request;
  MPI_Isend(data, BYTES, MPI_BYTE, 1, TAG, comm, &request);
  pass_time(0.02);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static enum first receive_watched(MPI_Comm comm) {
  enum first seen = kUnseen;
  pthread_t watcher;
  watching = false;
  CHECK(pthread_create(&watcher, NULL, watch, &seen) == 0, "no thread");
  while (!watching) continue;
  MPI_Recv((void*)watched, BYTES, MPI_BYTE, 0, TAG, comm, MPI_STATUS_IGNORE);
  pthread_join(watcher, NULL);
  return seen;
}

// Starts the receive once the RTS header has come, and makes no call until the data has come.
static enum first be_pushed_to(MPI_Comm comm) {
  MPI_Request request;
  MPI_Probe(0, TAG, comm, MPI_STATUS_IGNORE);
  MPI_Irecv((void*)watched, BYTES, MPI_BYTE, 0, TAG, comm, &request);
  const enum first seen = first_change();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return seen;
}

static enum first receive(MPI_Comm comm, const char* how, unsigned char* data) {
  memset(data, 0, BYTES);
  watched = data;
  const enum first seen = strcmp(how, "push") == 0 ? be_pushed_to(comm) : receive_watched(comm);
  for (size_t i = 0; i < BYTES; ++i) CHECK(data[i] == 1, "byte %zu", i);
  return seen;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* how = text("HOW", "job");
  const int rounds = atoi(text("ROUNDS", "10"));
  const MPI_Comm comm = hinted(text("MADE", "set_info"));
  unsigned char* data = blank(BYTES);
  int seen[kFirsts] = {0};
  for (int round = 0; round < rounds; ++round) {
    MPI_Barrier(comm);
    if (rank == 0) send(comm, how, data);
    if (rank == 1) ++seen[receive(comm, how, data)];
    alarm(STUCK_SECONDS);
  }
  if (rank == 1) printf("low %d high %d\n", seen[kLow], seen[kHigh]);
  fflush(stdout);
  free(data);
  MPI_Comm freed = comm;
  MPI_Comm_free(&freed);
  return end();
}
