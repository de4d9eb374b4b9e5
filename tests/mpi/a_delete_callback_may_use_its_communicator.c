// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 frees a communicator. The delete callback of an attribute receives a large message on that
// communicator, has a collective on it, and frees another one with a callback of its own. Rank 1
// has started the send before it frees the communicator. Handles are reused, and the next
// communicators work. A callback that fails keeps the communicator.
//
// run: ranks 2
// run: ranks 2 heap MH_MAPPED_THRESHOLD=4K
#include "check.h"

enum { ROUNDS = 20 };

static int outer_key, inner_key, failing_key;
static int called;

static void meet(MPI_Comm comm) {
  int sum = 0;
  MPI_Barrier(comm);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == 1, "sum %d", sum);
}

static int on_inner(MPI_Comm comm, int key, void* value, void* extra) {
  (void)key;
  (void)value;
  (void)extra;
  meet(comm);
  ++called;
  return MPI_SUCCESS;
}

// `value` is the other communicator.
static int on_outer(MPI_Comm comm, int key, void* value, void* extra) {
  (void)key;
  (void)extra;
  unsigned char* data = blank(LARGE);
  MPI_Status status;
  if (rank == 0) {
    MPI_Recv(data, LARGE, MPI_BYTE, 1, TAG, comm, &status);
    check_status(&status, 1, TAG, LARGE);
    check_bytes(data, LARGE, called, "in a callback");
  }
  free(data);
  MPI_Comm_free((MPI_Comm*)value);
  meet(comm);
  return MPI_SUCCESS;
}

static int fail_once(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm;
  (void)key;
  (void)extra;
  int* fails = value;
  return (*fails)-- > 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void round_of(int round) {
  MPI_Comm comm, other;
  MPI_Request request = MPI_REQUEST_NULL;
  unsigned char* data = filled(LARGE, round);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Comm_set_attr(comm, outer_key, &other);
  MPI_Comm_set_attr(other, inner_key, &other);
  if (round % 2 == 1) meet(comm);
  if (rank == 1) MPI_Isend(data, LARGE, MPI_BYTE, 0, TAG, comm, &request);
  MPI_Comm_free(&comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(called == round + 1, "%d callbacks", called);
  free(data);
}

static void failing(void) {
  MPI_Comm comm;
  int fails = 1;
  unsigned char* data = filled(LARGE, rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // MPICH raises the error here
  MPI_Comm_set_attr(comm, failing_key, &fails);
  if (MPI_Comm_free(&comm) != MPI_SUCCESS) {
    if (rank == 0) MPI_Recv(data, LARGE, MPI_BYTE, 1, TAG, comm, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(data, LARGE, MPI_BYTE, 0, TAG, comm);
    check_bytes(data, LARGE, 1, "after a failing callback");
    meet(comm);
    MPI_Comm_free(&comm);
  }
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_outer, &outer_key, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_inner, &inner_key, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, fail_once, &failing_key, NULL);
  for (int round = 0; round < ROUNDS; ++round) round_of(round);
  failing();
  MPI_Comm_free_keyval(&outer_key);
  MPI_Comm_free_keyval(&inner_key);
  MPI_Comm_free_keyval(&failing_key);
  return end();
}
