// SPDX-License-Identifier: BSD-3-Clause
//
// A large message stays unmatched for a long time on a communicator whose errors return. Manyhands
// then checks whether the message has matched a receive too short for an RTS header. A persistent
// receive that completes meanwhile keeps its status, whatever call completes it. If the check
// consumed the completion, the program would get an empty status. (MPICH 5 forgets the status of a
// persistent request that was tested.)
//
// The check comes after kLostAfterNs of src/base/tuning.hpp, which is less than LOOKED_AT_MS.
//
// run: ranks 2
#include "check.h"

enum { TOLD = 1, LONG = 2, WAYS = 6, ROOM = 40, LOOKED_AT_MS = 300 };

// Completes `request` in the way number `way`: by one call, or by MPI_Request_get_status and then
// MPI_Wait. Sets `status` to the status that the first of its calls returns.
static void complete(int way, MPI_Request* request, MPI_Status* status) {
  int flag = 0, index = -1, found = 0;
  switch (way) {
    case 0:
      MPI_Wait(request, status);
      break;
    case 1:
      MPI_Testall(1, request, &flag, status);
      CHECK(flag, "MPI_Testall: it is not complete");
      break;
    case 2:
      MPI_Waitany(1, request, &index, status);
      CHECK(index == 0, "MPI_Waitany: index %d", index);
      break;
    case 3:
      MPI_Testsome(1, request, &found, &index, status);
      CHECK(found == 1 && index == 0, "MPI_Testsome: %d found, index %d", found, index);
      break;
    case 4:
      MPI_Request_get_status(*request, &flag, status);
      CHECK(flag, "MPI_Request_get_status: it is not complete");
      MPI_Wait(request, MPI_STATUS_IGNORE);
      break;
    default:
      MPI_Waitall(1, request, status);
  }
}

static void receive(int bytes) {
  char few[ROOM];
  unsigned char* data = blank(LARGE);
  MPI_Request request;
  MPI_Recv_init(few, ROOM, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
  for (int way = 0; way < WAYS; ++way) {
    int told = 0;
    MPI_Status status;
    MPI_Start(&request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(&told, 1, MPI_INT, 0, TOLD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    complete(way, &request, &status);
    check_status(&status, 0, TAG, bytes);
    MPI_Recv(data, LARGE, MPI_BYTE, 0, LONG, MPI_COMM_WORLD, &status);
    check_status(&status, 0, LONG, LARGE);
    check_bytes(data, LARGE, way, "what was not taken for long");
  }
  MPI_Request_free(&request);
  free(data);
}

static void send(int bytes) {
  for (int way = 0; way < WAYS; ++way) {
    unsigned char* data = filled(LARGE, way);
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(data, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    MPI_Isend(data, LARGE, MPI_BYTE, 1, LONG, MPI_COMM_WORLD, &request);
    usleep(LOOKED_AT_MS * 1000);
    MPI_Send(&way, 1, MPI_INT, 1, TOLD, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(data);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int bytes = 0; bytes < ROOM; bytes += ROOM / 2) rank == 0 ? send(bytes) : receive(bytes);
  return end();
}
