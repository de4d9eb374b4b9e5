// SPDX-License-Identifier: BSD-3-Clause
// run: ranks 2
// run: ranks 2 says "go through the MPI library" REFUSE=threads MH_VERBOSE=1
// run: ranks 2 says "go through the MPI library" REFUSE=cores
//
// A large noncontiguous message is under way while its sender or receiver waits in a call of the
// library: as root of a broadcast, or in MPI_Win_free. The message arrives, also if no helper can
// be made (limits on processes), or no helper may run on the core of another rank (cpusets). A
// message whose data only its sender's process can move would otherwise wait for a rank that waits
// for the receiver. Runs with a setting of Manyhands take place under Debian's MPI libraries only.
// The run with REFUSE=threads has MH_VERBOSE=1 for this reason: without threads, Open MPI 5 itself
// aborts.
#include "check.h"
#include "refusal.h"

enum { BLOCKS = 8192, BLOCK = 64, STRIDE = 160, BYTES = BLOCKS * BLOCK, EXTENT = BLOCKS * STRIDE };

static MPI_Datatype strided;

static void fill_strided(unsigned char* data, int key) {
  for (size_t i = 0; i < BYTES; ++i) data[i / BLOCK * STRIDE + i % BLOCK] = byte_of(key, i);
}

static void check_strided(const unsigned char* data, int key) {
  for (size_t i = 0; i < BYTES; ++i) {
    CHECK(data[i / BLOCK * STRIDE + i % BLOCK] == byte_of(key, i), "byte %zu is wrong", i);
  }
}

static MPI_Win window(void) {
  MPI_Win win;
  void* base;
  MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  return win;
}

// The sender is in a call that waits for the receiver. The receiver waits for the message before it
// enters that call.
static void sender_is_away(bool in_broadcast, int key) {
  unsigned char* data = blank(EXTENT);
  unsigned char* large = blank(8 * LARGE);
  MPI_Win win = window();
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) {
    fill_strided(data, key);
    MPI_Isend(data, 1, strided, 1, TAG, MPI_COMM_WORLD, &request);
  } else {
    MPI_Recv(data, 1, strided, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_strided(data, key);
  }
  if (in_broadcast) MPI_Bcast(large, 8 * LARGE, MPI_BYTE, 0, MPI_COMM_WORLD);
  MPI_Win_free(&win);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(large);
  free(data);
}

// The receiver is in MPI_Win_free, and the sender is in MPI_Ssend until the receiver has taken the
// message.
static void receiver_is_away(int key) {
  unsigned char* data = blank(EXTENT);
  MPI_Win win = window();
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) {
    unsigned char* dense = filled(BYTES, key);
    MPI_Ssend(dense, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    free(dense);
  } else {
    MPI_Irecv(data, 1, strided, 0, TAG, MPI_COMM_WORLD, &request);
  }
  MPI_Win_free(&win);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 1) check_strided(data, key);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* what = getenv("REFUSE");
  int refused = 0;
  if (what != NULL)
    refused = strcmp(what, "threads") == 0 ? refuse_threads() : refuse_other_cores();
  if (refused != 0) return skip("seccomp filters cannot be installed here");
  MPI_Type_vector(BLOCKS, BLOCK, STRIDE, MPI_BYTE, &strided);
  MPI_Type_commit(&strided);
  for (int round = 0; round < 5; ++round) {
    sender_is_away(true, round);
    sender_is_away(false, round + 10);
    receiver_is_away(round + 20);
  }
  MPI_Type_free(&strided);
  return end();
}
