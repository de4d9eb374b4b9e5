// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 sends long messages to the rank TO. All other ranks wait until the last message has
// arrived, so every core of the node is free. The data is right and the gaps stay; a Python test
// may also check which ranks moved the data. TYPE is `contiguous`, `scattered` (at both ends), or
// `one-sided` (gaps at the receiver only). With SENDER=sleeps, the sender sleeps outside MPI after
// each message. With SENDER=away, the sender sleeps until the receiver reports the arrival in the
// file DONE. With SENDER=polls, the sender waits in a loop of MPI_Test. ROUNDS is the number of
// messages. The other ranks wait in MPI_Recv. WAITERS selects MPI_Waitall, MPI_Barrier or a loop of
// MPI_Test instead, or `compute`: a loop of MPI_Test with work between the tests. HOMES pins the
// ranks before MPI_Init, and THEN pins them after it (homes.h). With NICE the receiver has the
// lowest priority. With FROM=mmap the send buffer is not from malloc, and so in no shared heap.
//
// run: ranks 2
// run: ranks 3 MH_CORES=3 TYPE=scattered
// run: ranks 4 helped MH_CORES=4 MH_FAKE_NODES=2 TYPE=scattered TO=2
// run: ranks 4 helped MH_CORES=4 MH_FAKE_NODES=2 TYPE=one-sided TO=2
#include <fcntl.h>
#include <sys/mman.h>

#include "check.h"
#include "homes.h"

enum { BYTES = 4 << 20, BLOCK = 64, BLOCKS = BYTES / BLOCK, GO = TAG + 1 };

static const char* text(const char* name, const char* otherwise) {
  const char* found = getenv(name);
  return found != NULL ? found : otherwise;
}

// The number of messages that have arrived, in memory that sender and receiver share; null without
// DONE.
static volatile int* arrived;

static void open_arrived(void) {
  const char* path = getenv("DONE");
  if (path == NULL) return;
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  CHECK(file >= 0 && ftruncate(file, 4096) == 0, "no file %s", path);
  arrived = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(arrived != MAP_FAILED, "%s cannot be mapped", path);
  close(file);
}

static MPI_Datatype type_of(bool scattered) {
  MPI_Datatype type;
  if (scattered) {
    MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &type);
  } else {
    MPI_Type_contiguous(BYTES, MPI_BYTE, &type);
  }
  MPI_Type_commit(&type);
  return type;
}

static size_t place_of(size_t byte, bool scattered) {
  return scattered ? byte / BLOCK * 2 * BLOCK + byte % BLOCK : byte;
}

static bool sends_from_mmap(void) { return strcmp(text("FROM", "malloc"), "mmap") == 0; }

static unsigned char* new_send_buffer(void) {
  if (!sends_from_mmap()) return blank(2 * BYTES);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  unsigned char* data = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
  CHECK(data != MAP_FAILED, "no memory");
  return data;
}

static void free_send_buffer(unsigned char* data) {
  if (sends_from_mmap()) {
    munmap(data, 2 * BYTES);
  } else {
    free(data);
  }
}

static void send(int to, bool scattered, int round) {
  MPI_Datatype type = type_of(scattered);
  unsigned char* data = new_send_buffer();
  for (size_t i = 0; i < BYTES; ++i) data[place_of(i, scattered)] = byte_of(round, i);
  const char* how = text("SENDER", "waits");
  if (strcmp(how, "waits") == 0) {
    MPI_Send(data, 1, type, to, TAG, MPI_COMM_WORLD);
  } else {
    MPI_Request request;
    int flag = 0;
    MPI_Isend(data, 1, type, to, TAG, MPI_COMM_WORLD, &request);
    if (strcmp(how, "sleeps") == 0) usleep(20000);
    while (strcmp(how, "away") == 0 && *arrived <= round) usleep(1000);
    while (strcmp(how, "polls") == 0 && !flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&type);
  free_send_buffer(data);
}

static void receive(bool scattered, int round) {
  MPI_Datatype type = type_of(scattered);
  unsigned char* data = blank(2 * BYTES);
  memset(data, 0xEE, 2 * BYTES);
  MPI_Status status;
  MPI_Recv(data, 1, type, 0, TAG, MPI_COMM_WORLD, &status);
  if (arrived != NULL) *arrived = round + 1;
  check_status(&status, 0, TAG, BYTES);
  for (size_t i = 0; i < BYTES; ++i) {
    CHECK(data[place_of(i, scattered)] == byte_of(round, i), "byte %zu", i);
  }
  for (size_t i = BLOCK; scattered && i < 2 * BYTES; ++i) {
    CHECK(i % (2 * BLOCK) < BLOCK || data[i] == 0xEE, "gap at %zu", i);
  }
  MPI_Type_free(&type);
  free(data);
}

static void call_the_others(void) {
  for (int i = 1; i < ranks; ++i) {
    if (i != rank) MPI_Send(NULL, 0, MPI_BYTE, i, GO, MPI_COMM_WORLD);
  }
}

// Computes after each MPI_Test for twice the time that the test took. A test takes microseconds if
// the library yields the core in it.
static void test_and_compute(MPI_Request* request) {
  for (int flag = 0; !flag;) {
    const double begin = MPI_Wtime();
    MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    const double end = MPI_Wtime();
    while (MPI_Wtime() < end + 2 * (end - begin)) continue;
  }
}

static void wait_for(int receiver, const char* how) {
  MPI_Request request;
  int flag = 0;
  if (strcmp(how, "recv") == 0) {
    MPI_Recv(NULL, 0, MPI_BYTE, receiver, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return;
  }
  MPI_Irecv(NULL, 0, MPI_BYTE, receiver, GO, MPI_COMM_WORLD, &request);
  if (strcmp(how, "barrier") == 0) MPI_Barrier(MPI_COMM_WORLD);
  while (strcmp(how, "test") == 0 && !flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  if (strcmp(how, "compute") == 0) test_and_compute(&request);
  MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
}

// All ranks wait for each rank in turn. While they wait, Manyhands notices on which core they run.
static void wait_for_each_other(void) {
  for (int late = 0; late < ranks; ++late) {
    if (rank == late) pass_time(0.01);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void begin_pinned(int* argc, char*** argv) {
  pin_to_home("HOMES", launched_rank());
  begin(argc, argv);
  pin_to_home("THEN", rank);
  if (getenv("THEN") != NULL) wait_for_each_other();
}

int main(int argc, char** argv) {
  begin_pinned(&argc, &argv);
  open_arrived();
  const int to = atoi(text("TO", "1")), rounds = atoi(text("ROUNDS", "12"));
  const char* waiters = text("WAITERS", "recv");
  const char* type = text("TYPE", "contiguous");
  const bool gaps_here = strcmp(type, "contiguous") != 0;
  const bool gaps_there = strcmp(type, "scattered") == 0;
  if (getenv("NICE") != NULL && rank == to && nice(19) == -1) return skip("no priorities here");
  for (int round = 0; round < rounds; ++round) {
    if (rank == 0) send(to, gaps_there, round);
    if (rank == to) receive(gaps_here, round);
    if (rank == to) call_the_others();
    if (rank != 0 && rank != to) wait_for(to, waiters);
    const bool in_barrier = rank == 0 || rank == to;
    if (strcmp(waiters, "barrier") == 0 && in_barrier) MPI_Barrier(MPI_COMM_WORLD);
    alarm(STUCK_SECONDS);
  }
  return end();
}
