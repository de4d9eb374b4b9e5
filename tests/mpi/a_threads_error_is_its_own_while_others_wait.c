// SPDX-License-Identifier: BSD-3-Clause
//
// Many threads wait on one communicator whose errors return. In each round, one thread in three
// gets a message that is too long. Each thread gets its own error, from MPI_Recv, or from
// MPI_Waitall of two requests, of which the first fails (the second may have MPI_ERR_PENDING). The
// threads without an error get their messages. A server that tests requests for other threads could
// lose an error or raise it in the wrong thread. With HANDLER=1, errors call a handler of the
// program in the thread whose call fails. MPICH 5 returns success once a handler has returned.
//
// run: ranks 2
// run: ranks 2 HANDLER=1 not mpich5,abi
#include <pthread.h>

#include "check.h"

enum { THREADS = 12, ROUNDS = 20, BYTES = 40 };

static MPI_Comm comm;
static bool handled;
static __thread int calls;

static void handler(MPI_Comm* of, int* code, ...) {
  CHECK(*of == comm, "the handler got another communicator");
  CHECK(class_of(*code) == MPI_ERR_TRUNCATE || class_of(*code) == MPI_ERR_IN_STATUS, "class %d",
        class_of(*code));
  ++calls;
}

// Returns whether the thread gets a message that is too long in this round: one thread in three
// does.
static bool fails(int thread, int round) { return (thread + round) % 3 == 0; }

static void* send(void* argument) {
  const int thread = (int)(intptr_t)argument;
  unsigned char data[2 * BYTES];
  for (int round = 0; round < ROUNDS; ++round) {
    fill(data, sizeof data, thread * 100 + round);
    const int bytes = fails(thread, round) ? 2 * BYTES : BYTES;
    MPI_Send(data, bytes, MPI_BYTE, 1, thread, comm);
    MPI_Send(data, BYTES, MPI_BYTE, 1, thread, comm);
    int go = 0;
    MPI_Recv(&go, 1, MPI_INT, 1, thread, comm, MPI_STATUS_IGNORE);
  }
  return NULL;
}

static void check_code(int code, int wanted, const char* what) {
  CHECK(class_of(code) == wanted, "%s: class %d, not %d", what, class_of(code), wanted);
}

static void blocking(int thread, int round) {
  unsigned char data[BYTES];
  const int before = calls;
  const bool too_long = fails(thread, round);
  int code = MPI_Recv(data, BYTES, MPI_BYTE, 0, thread, comm, MPI_STATUS_IGNORE);
  check_code(code, too_long ? MPI_ERR_TRUNCATE : MPI_SUCCESS, "a receive");
  CHECK(!handled || calls - before == (too_long ? 1 : 0), "the handler was called %d times",
        calls - before);
  code = MPI_Recv(data, BYTES, MPI_BYTE, 0, thread, comm, MPI_STATUS_IGNORE);
  check_code(code, MPI_SUCCESS, "the receive after it");
  check_bytes(data, BYTES, thread * 100 + round, "the message after it");
}

static void together(int thread, int round) {
  unsigned char data[2][BYTES];
  MPI_Request requests[2];
  MPI_Status statuses[2];
  const bool too_long = fails(thread, round);
  for (int i = 0; i < 2; ++i) {
    MPI_Irecv(data[i], BYTES, MPI_BYTE, 0, thread, comm, &requests[i]);
  }
  const int code = MPI_Waitall(2, requests, statuses);
  if (!too_long) {
    check_code(code, MPI_SUCCESS, "MPI_Waitall");
  } else {
    check_code(code, MPI_ERR_IN_STATUS, "MPI_Waitall");
    check_code(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE, "the first of two");
    if (class_of(statuses[1].MPI_ERROR) == MPI_ERR_PENDING) {
      statuses[1].MPI_ERROR = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
    check_code(statuses[1].MPI_ERROR, MPI_SUCCESS, "the second of two");
  }
  check_bytes(data[1], BYTES, thread * 100 + round, "the second of two");
}

static void* receive(void* argument) {
  const int thread = (int)(intptr_t)argument;
  for (int round = 0; round < ROUNDS; ++round) {
    // Under MPICH, an error of MPI_Waitall calls the handler of MPI_COMM_WORLD, also without
    // Manyhands. With a handler of `comm`, messages are therefore received one by one, by MPI_Recv.
    const bool one_by_one = handled || round % 2 == 0;
    one_by_one ? blocking(thread, round) : together(thread, round);
    MPI_Send(&round, 1, MPI_INT, 0, thread, comm);
  }
  return NULL;
}

int main(int argc, char** argv) {
  MPI_Errhandler errhandler;
  if (!begin_with_threads(&argc, &argv)) return skip("this library has no MPI_THREAD_MULTIPLE");
  handled = getenv("HANDLER") != NULL;
  if (!handled) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (handled) {
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Comm_set_errhandler(comm, errhandler);
    MPI_Errhandler_free(&errhandler);
  }
  pthread_t threads[THREADS];
  for (intptr_t i = 0; i < THREADS; ++i) {
    pthread_create(&threads[i], NULL, rank == 0 ? send : receive, (void*)i);
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  MPI_Comm_free(&comm);
  return end();
}
