// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 starts a message of scattered data and sleeps outside MPI until it has arrived. Rank 1
// receives the message and all other ranks wait for rank 1, so their cores are free. The data is
// right, the gaps at the receiver stay, and the program prints the seconds from the start of the
// receive. ROUNDS and BYTES may be set. All runs are helped: an MPI library alone may not move the
// data until the sender calls MPI again.
//
// run: ranks 3 helped MH_CORES=3
// run: ranks 4 helped MH_CORES=4 MH_MEMORY=cells
// run: ranks 3 helped nocma MH_CORES=3
#include "check.h"

enum { PATH = 64, GO = TAG + 1 };

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

static void send_and_sleep(const void* data, MPI_Datatype type) {
  char path[PATH] = "/tmp/mh-test-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0, "no file in /tmp");
  close(file);
  MPI_Send(path, PATH, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
  MPI_Request request;
  MPI_Isend(data, 1, type, 1, TAG, MPI_COMM_WORLD, &request);
  while (access(path, F_OK) == 0) usleep(200);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void receive(unsigned char* in, int blocks, MPI_Datatype type, int key) {
  char path[PATH];
  MPI_Recv(path, PATH, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  usleep(1000);  // meanwhile the other ranks begin to wait
  memset(in, 0xEE, (size_t)16 * (size_t)blocks);
  MPI_Recv(in, 1, type, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 2; i < ranks; ++i) MPI_Send(NULL, 0, MPI_BYTE, i, GO, MPI_COMM_WORLD);
  unlink(path);
  for (int i = 0; i < 16 * blocks; ++i) {
    const unsigned char wanted = i % 16 < 8 ? byte_of(key, (size_t)(i / 16 * 8 + i % 8)) : 0xEE;
    CHECK(in[i] == wanted, "byte %d", i);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int rounds = number("ROUNDS", 10), blocks = number("BYTES", 4 << 20) / 8;
  MPI_Datatype type;
  MPI_Type_vector(blocks, 8, 16, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  unsigned char* data = blank((size_t)16 * (size_t)blocks);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; rank == 0 && i < 8 * blocks; ++i)
      data[i / 8 * 16 + i % 8] = byte_of(round, (size_t)i);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) send_and_sleep(data, type);
    if (rank == 1) receive(data, blocks, type, round);
    if (rank > 1) MPI_Recv(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&type);
  free(data);
  return end();
}
