// SPDX-License-Identifier: BSD-3-Clause
//
// A receive shorter than its message fails with MPI_ERR_TRUNCATE, for every capacity: zero, less
// than an RTS header, exactly an RTS header, more, one byte too few. The sender finishes without an
// error, no byte is written beyond the capacity (Open MPI itself does write), and the next message
// is intact.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
#include "check.h"

static const int capacities[] = {0, 1, 16, 95, 96, 97, 192, 4096, 65535, 65536, LARGE - 1};
enum { CASES = sizeof capacities / sizeof capacities[0], WAYS = 4 };

static int receive(int way, unsigned char* data, int capacity) {
  MPI_Request request;
  MPI_Status status;
  int code, flag = 0;
  switch (way) {
    case 0:
      return MPI_Recv(data, capacity, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
    case 1:
      MPI_Irecv(data, capacity, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
      return MPI_Wait(&request, &status);
    case 2:
      MPI_Irecv(data, capacity, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
      while (!flag) {
        code = MPI_Test(&request, &flag, &status);
        if (code != MPI_SUCCESS) return code;
      }
      return MPI_SUCCESS;
    default:
      MPI_Irecv(data, capacity, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
      code = MPI_Waitall(1, &request, &status);
      if (class_of(code) == MPI_ERR_IN_STATUS) return status.MPI_ERROR;
      return code;
  }
}

static void receive_short(int way, int capacity) {
  unsigned char* data = blank(LARGE);
  int code = receive(way, data, capacity);
  CHECK(class_of(code) == MPI_ERR_TRUNCATE, "capacity %d, way %d: error class %d", capacity, way,
        class_of(code));
#ifndef OPEN_MPI
  check_blank(data, (size_t)capacity, LARGE, "behind a truncated message");
#endif
  CHECK(receive(way, data, LARGE) == MPI_SUCCESS, "the message after it");
  check_bytes(data, LARGE, capacity, "the message after it");
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int i = 0; i < CASES; ++i) {
    for (int way = 0; way < WAYS; ++way) {
      if (rank == 1) {
        receive_short(way, capacities[i]);
        continue;
      }
      unsigned char* data = filled(LARGE, capacities[i]);
      int code = MPI_Send(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
      CHECK(code == MPI_SUCCESS, "the sender of a truncated message got %d", class_of(code));
      code = MPI_Ssend(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
      CHECK(code == MPI_SUCCESS, "the next send got %d", class_of(code));
      free(data);
    }
  }
  return end();
}
