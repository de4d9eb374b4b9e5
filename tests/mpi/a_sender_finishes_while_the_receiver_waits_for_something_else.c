// SPDX-License-Identifier: BSD-3-Clause
//
// Progress: once the receive of a large message is posted, its sender finishes, even if the
// receiver does not test the request of this receive. The receiver is in a blocking call for
// something else: another receive, a wait for another request, a probe, a barrier, a broadcast, or
// a neighbourhood collective. In a neighbourhood collective the rank waits inside the MPI library.
// The posted receive is contiguous or in pieces, persistent or not. If only a call that completes
// this receive copied the message, both ranks would hang.
//
// run: ranks 2
// run: ranks 2 LEVEL=3
#include "check.h"

enum { WAYS = 9, OF_NEIGHBOURS = 8 };

static MPI_Comm line;  // both ranks as a line, for the neighbourhood collective

static void meet_the_neighbour(void) {
  int mine = rank, theirs[2] = {-1, -1};
  MPI_Neighbor_allgather(&mine, 1, MPI_INT, theirs, 1, MPI_INT, line);
  CHECK(theirs[1 - rank] == 1 - rank, "the neighbour's number is %d", theirs[1 - rank]);
}

static void block_until_told(int way) {
  int token = 0, flag = 0, index;
  MPI_Request request, both[2];
  MPI_Comm comm = MPI_COMM_WORLD;
  switch (way) {
    case 0:
      MPI_Recv(&token, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
      break;
    case 1:
      MPI_Irecv(&token, 1, MPI_INT, 0, 1, comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      break;
    case 2:
      MPI_Probe(0, 1, comm, MPI_STATUS_IGNORE);
      break;
    case 3:
      MPI_Barrier(comm);
      break;
    case 4:
      MPI_Bcast(&token, 1, MPI_INT, 0, comm);
      break;
    case 5:
      MPI_Irecv(&token, 1, MPI_INT, 0, 1, comm, &request);
      while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      break;
    case 6:
      MPI_Irecv(&token, 1, MPI_INT, 0, 1, comm, &both[0]);
      both[1] = MPI_REQUEST_NULL;
      MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE);
      break;
    case OF_NEIGHBOURS:
      meet_the_neighbour();
      break;
    default:
      while (!flag) MPI_Iprobe(0, 1, comm, &flag, MPI_STATUS_IGNORE);
  }
  if (way == 2 || way == 7) MPI_Recv(&token, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
}

static void tell(int way) {
  int token = 1;
  if (way == 3)
    MPI_Barrier(MPI_COMM_WORLD);
  else if (way == 4)
    MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
  else if (way == OF_NEIGHBOURS)
    meet_the_neighbour();
  else
    MPI_Send(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
}

// Forms of the receive: contiguous or in pieces, persistent or not.
enum { PIECES = 1, PERSISTENT = 2, FORMS = 4, PIECE = 64 };

static void send_and_wait(unsigned char* data, int bytes, int synchronous) {
  MPI_Request request;
  if (synchronous) {
    MPI_Ssend(data, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    return;
  }
  MPI_Isend(data, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void receive(int way, int form, int bytes) {
  unsigned char* data = blank((size_t)bytes * 2);
  MPI_Request request;
  MPI_Status status;
  MPI_Datatype type = MPI_BYTE;
  int count = bytes;
  if (form & PIECES) {
    MPI_Type_vector(bytes / PIECE, PIECE, 2 * PIECE, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    count = 1;
  }
  if (form & PERSISTENT) {
    MPI_Recv_init(data, count, type, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
  } else {
    MPI_Irecv(data, count, type, 0, TAG, MPI_COMM_WORLD, &request);
  }
  block_until_told(way);
  MPI_Wait(&request, &status);
  check_status(&status, 0, TAG, bytes);
  if (form & PERSISTENT) MPI_Request_free(&request);
  if (form & PIECES) {
    MPI_Type_free(&type);
    for (int i = 1; i < bytes / PIECE; ++i) memmove(data + i * PIECE, data + 2 * i * PIECE, PIECE);
  }
  check_bytes(data, (size_t)bytes, way, "a message received while waiting for another");
  free(data);
}

int main(int argc, char** argv) {
  const char* level = getenv("LEVEL");
  int provided;
  MPI_Init_thread(&argc, &argv, level != NULL ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  begin_after_init();
  const int length = 2, periodic = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &length, &periodic, 0, &line);
  for (int way = 0; way < WAYS; ++way) {
    for (int form = 0; form < FORMS; ++form) {
      int bytes = form % 2 == 0 ? LARGE : 8 * LARGE;
      if (rank == 0) {
        unsigned char* data = filled((size_t)bytes, way);
        send_and_wait(data, bytes, (way + form) % 2);
        memset(data, 0, (size_t)bytes);
        tell(way);
        free(data);
      } else {
        receive(way, form, bytes);
      }
    }
  }
  MPI_Comm_free(&line);
  return end();
}
