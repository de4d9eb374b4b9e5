// SPDX-License-Identifier: BSD-3-Clause
//
// A sender whose data is scattered, or whose memory cannot be read, stays out of MPI until its
// message has arrived: the receiver lends its core to the sender. Without that, the sender would
// loop for ever. All runs are helped and have a core for each rank: an MPI library alone may not
// move the data until the sender calls MPI again.
//
// run: ranks 2 helped
// run: ranks 2 helped MH_MEMORY=cells
#include "check.h"

enum { BLOCKS = 80000, BYTES = 8 * BLOCKS, PATH = 64 };

static void send(MPI_Datatype type, int count, const void* data) {
  char path[PATH] = "/tmp/mh-test-XXXXXX";
  int file = mkstemp(path);
  CHECK(file >= 0, "no file in /tmp");
  close(file);
  MPI_Send(path, PATH, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
  MPI_Request request;
  MPI_Isend(data, count, type, 1, TAG, MPI_COMM_WORLD, &request);
  while (access(path, F_OK) == 0) continue;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void receive(int key) {
  char path[PATH];
  MPI_Recv(path, PATH, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  unsigned char* in = blank(BYTES);
  MPI_Recv(in, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  unlink(path);
  check_bytes(in, BYTES, key, "from a sender that is not in MPI");
  check_blank(in, BYTES, BYTES + 1, "behind it");
  free(in);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return skip("needs two cores");
  unsigned char *dense = filled(BYTES, 3), *scattered = blank(2 * BYTES);
  for (int i = 0; i < BYTES; ++i) scattered[i / 8 * 16 + i % 8] = byte_of(4, (size_t)i);
  MPI_Datatype type;
  MPI_Type_vector(BLOCKS, 8, 16, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  for (int round = 0; round < 5; ++round) {
    if (rank == 0) {
      send(MPI_BYTE, BYTES, dense);
      send(type, 1, scattered);
    } else {
      receive(3);
      receive(4);
    }
  }
  MPI_Type_free(&type);
  free(dense);
  free(scattered);
  return end();
}
