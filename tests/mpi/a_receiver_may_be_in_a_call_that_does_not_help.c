// SPDX-License-Identifier: BSD-3-Clause
//
// A rank starts to receive a large message into a buffer with gaps. Then it enters a call of the
// MPI library that has no arrival barrier: collective I/O, MPI_Comm_create_group, or a call on a
// window of the library. The sender enters the same call after its MPI_Send. Inside such a call
// nobody copies a rendezvous message: if the message went by rendezvous, the send would never
// return.
//
// run: ranks 2
// run: ranks 2 helped MH_WINDOWS=none
// run: ranks 3 helped MH_CORES=3 MH_MEMORY=cells MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=64K MH_MAPPED_THRESHOLD=4K
// run: ranks 3 heap MH_CORES=3 MH_MEMORY=mapped MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=64K MH_MAPPED_THRESHOLD=4K
#include "check.h"

enum { BLOCKS = 1000, BLOCK = LARGE / BLOCKS };

static MPI_Datatype gaps;
static MPI_Win window;
static char* in_window;
static char file_name[] = "/tmp/mh-test-XXXXXX";

static MPI_File opened(void) {
  MPI_File file;
  MPI_File_open(MPI_COMM_WORLD, file_name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
  return file;
}

// ---- The calls that the ranks enter -------------------------------------------------------------

static MPI_File file;

static void write_together(void) {
  char line[100] = "";
  MPI_File_write_at_all(file, 100 * rank, line, sizeof line, MPI_BYTE, MPI_STATUS_IGNORE);
}

static void close_file(void) { MPI_File_close(&file); }

static void make_by_group(void) {
  MPI_Group all;
  MPI_Comm made;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Comm_create_group(MPI_COMM_WORLD, all, 5, &made);
  MPI_Group_free(&all);
  MPI_Comm_free(&made);
}

// Opens the window to rank 0, the sender and only origin, until rank 0 has ended its access. Rank
// 1, the receiver, makes this call.
static void be_target(void) {
  const int pair[] = {0, 1};
  MPI_Group all, origin, target;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &pair[0], &origin);
  MPI_Group_incl(all, 1, &pair[1], &target);
  if (rank == 1) {
    MPI_Win_post(origin, 0, window);
    MPI_Win_wait(window);
  }
  if (rank == 0) {
    MPI_Win_start(target, 0, window);
    MPI_Win_complete(window);
  }
  MPI_Group_free(&all);
  MPI_Group_free(&origin);
  MPI_Group_free(&target);
}

static void fence(void) { MPI_Win_fence(0, window); }

static void (*const calls[])(void) = {write_together, make_by_group, be_target, fence, close_file};

// ---- The message --------------------------------------------------------------------------------

static void beside(void (*call)(void), int round) {
  unsigned char *data = blank(2 * LARGE), *packed = filled(LARGE, round);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 1) MPI_Irecv(data, 1, gaps, 0, TAG, MPI_COMM_WORLD, &request);
  if (rank == 0) {
    usleep(3000);
    MPI_Send(packed, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  }
  call();
  MPI_Status status;
  MPI_Wait(&request, &status);
  if (rank == 1) {
    check_status(&status, 0, TAG, LARGE);
    for (int i = 0; i < BLOCKS; ++i) memcpy(packed + i * BLOCK, data + 2 * i * BLOCK, BLOCK);
    check_bytes(packed, LARGE, round, "beside a call");
  }
  free(packed);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  if (rank == 0) close(mkstemp(file_name));
  MPI_Bcast(file_name, sizeof file_name, MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Win_allocate(100, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &in_window, &window);
  for (int round = 0; round < 4; ++round) {
    file = opened();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) beside(calls[i], round);
  }
  MPI_Win_free(&window);
  if (rank == 0) unlink(file_name);
  MPI_Type_free(&gaps);
  return end();
}
