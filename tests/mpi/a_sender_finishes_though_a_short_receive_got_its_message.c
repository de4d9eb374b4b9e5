// SPDX-License-Identifier: BSD-3-Clause
//
// A started receive is too short for its message, even for an RTS header. The sender finishes while
// the receiver waits for another message, in MPI_Recv, MPI_Barrier, MPI_Test or MPI_Wait. If the
// cut RTS header stayed unnoticed, the sender would wait for ever. The receive fails with
// MPI_ERR_TRUNCATE when it completes, and the next message is intact, also if a short message of
// the same tag follows. (Plain Open MPI hangs after such an error.)
//
// run: ranks 2 not openmpi4,openmpi5
// run: ranks 2 not openmpi4,openmpi5 MH_MEMORY=cells MH_CORES=4
#include "check.h"

enum { TOLD = 1, WAYS = 4, ROOM = 40, BEHIND = 8 };

static void block_until_told(int way) {
  int token = 0, flag = 0;
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Request request;
  switch (way) {
    case 0:
      MPI_Recv(&token, 1, MPI_INT, 0, TOLD, comm, MPI_STATUS_IGNORE);
      break;
    case 1:
      MPI_Barrier(comm);
      break;
    case 2:
      MPI_Irecv(&token, 1, MPI_INT, 0, TOLD, comm, &request);
      while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      break;
    default:
      MPI_Irecv(&token, 1, MPI_INT, 0, TOLD, comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static void tell(int way) {
  int token = 1;
  if (way == 1)
    MPI_Barrier(MPI_COMM_WORLD);
  else
    MPI_Send(&token, 1, MPI_INT, 1, TOLD, MPI_COMM_WORLD);
}

static void receive(int way, int persistent, int behind) {
  unsigned char* data = blank(2 * RTS_HEADER);
  MPI_Request request;
  MPI_Status status;
  if (persistent) {
    MPI_Recv_init(data, ROOM, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
  } else {
    MPI_Irecv(data, ROOM, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  block_until_told(way);
  int code = class_of(MPI_Wait(&request, &status));
  CHECK(code == MPI_ERR_TRUNCATE, "way %d: error class %d", way, code);
  if (persistent && request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  if (behind) {
    MPI_Recv(data, ROOM, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
    check_status(&status, 0, TAG, BEHIND);
  }
  free(data);
  data = blank(LARGE);
  MPI_Recv(data, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
  check_status(&status, 0, TAG, LARGE);
  check_bytes(data, LARGE, way, "the next message");
  free(data);
}

static void send(int way, int behind) {
  unsigned char* data = filled(LARGE, way);
  MPI_Request request;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Isend(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
  if (behind) MPI_Send(data, BEHIND, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  tell(way);
  MPI_Send(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int play = 0; play < 4 * WAYS; ++play) {
    int way = play / 4, persistent = play / 2 % 2, behind = play % 2;
    if (rank == 0)
      send(way, behind);
    else
      receive(way, persistent, behind);
  }
  return end();
}
