// SPDX-License-Identifier: BSD-3-Clause
//
// A receive that is too short for a probed message calls the error handler of its communicator as
// often for a long message as for a short one. Earlier messages have the size of an RTS header, so
// a probe cannot distinguish them from a header. The receive is shorter than an RTS header, as
// long, or longer. Under MPICH only MPI_Recv is tested: other calls raise the error on
// MPI_COMM_WORLD.
//
// run: ranks 2
// run: ranks 2 LEVEL=3
// run: ranks 3 MH_FAKE_NODES=3
#include "check.h"

enum { PLAIN = 4000, WAYS = 4, ROOMS = 3 };
static const int rooms[ROOMS] = {RTS_HEADER / 2, RTS_HEADER, RTS_HEADER + 300};

static int calls;
static void note(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  ++calls;
}

// Receives a probed message into `room` bytes, by the calls number `way`. Returns how often the
// handler was called.
static int receive(int way, int room, int tag, MPI_Comm comm) {
  unsigned char* data = blank(LARGE);  // Open MPI may write the whole message
  MPI_Status status;
  MPI_Message message;
  MPI_Request request;
  int flag = 0, code = MPI_SUCCESS;
  calls = 0;
  switch (way) {
    case 0:
      MPI_Probe(0, tag, comm, &status);
      code = MPI_Recv(data, room, MPI_BYTE, 0, tag, comm, &status);
      break;
    case 1:
      while (!flag) MPI_Iprobe(0, tag, comm, &flag, &status);
      MPI_Irecv(data, room, MPI_BYTE, 0, tag, comm, &request);
      code = MPI_Wait(&request, &status);
      break;
    case 2:
      MPI_Mprobe(0, tag, comm, &message, &status);
      code = MPI_Mrecv(data, room, MPI_BYTE, &message, &status);
      break;
    default:
      while (!flag) MPI_Improbe(0, tag, comm, &flag, &message, &status);
      MPI_Imrecv(data, room, MPI_BYTE, &message, &request);
      code = MPI_Wait(&request, &status);
  }
  free(data);
  // MPICH 5 may return MPI_SUCCESS once a handler was called.
  CHECK(class_of(code) == MPI_ERR_TRUNCATE || (is_mpich5() && code == MPI_SUCCESS),
        "way %d, room %d: class %d", way, room, class_of(code));
  return calls;
}

static void send(int bytes, int tag, MPI_Comm comm) {
  unsigned char* data = filled((size_t)bytes, tag);
  MPI_Send(data, bytes, MPI_BYTE, 1, tag, comm);
  free(data);
}

int main(int argc, char** argv) {
  const char* level = getenv("LEVEL");
  int provided;
  MPI_Comm comm;
  MPI_Errhandler handler;
  MPI_Init_thread(&argc, &argv, level != NULL ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  begin_after_init();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(note, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  for (int way = 0; way < WAYS; way += is_open_mpi() ? 1 : WAYS) {
    for (int room = 0; room < ROOMS; ++room) {
      if (rank == 0) {
        send(PLAIN, TAG, comm);
        send(RTS_HEADER, TAG + 1, comm);
        send(LARGE, TAG + 2, comm);
      } else if (rank == 1) {
        const int expected = receive(way, rooms[room], TAG, comm);
        const int of_rts_size = receive(way, 8, TAG + 1, comm);
        const int of_long = receive(way, rooms[room], TAG + 2, comm);
        CHECK(of_rts_size == expected && of_long == expected,
              "way %d, room %d: %d and %d calls instead of %d", way, rooms[room], of_rts_size,
              of_long, expected);
      }
      MPI_Barrier(comm);
    }
  }
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&comm);
  return end();
}
