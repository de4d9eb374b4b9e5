// SPDX-License-Identifier: BSD-3-Clause
//
// When MPI_Finalize ends, nothing is left of what the program has freed: types of receives that
// were still pending, and requests of active sends. (MPICH would report a leak on standard output,
// where test_conformance.py allows only PASS.)
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 4 helped MH_FAKE_NODES=2
#include "check.h"

enum { ROWS = 8000, WIDTH = 100, STRIDE = 200 };

static MPI_Datatype rows(void) {
  MPI_Datatype type;
  MPI_Type_vector(ROWS, WIDTH, STRIDE, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  return type;
}

static unsigned char *in, *out;

static void type_freed_under(bool persistent, bool freed) {
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  MPI_Request requests[2];
  MPI_Datatype to = rows(), from = rows();
  if (persistent) {
    MPI_Recv_init(in, 1, to, last, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out, 1, from, next, TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Type_free(&to);
    MPI_Type_free(&from);
    MPI_Startall(2, requests);
  } else {
    MPI_Irecv(in, 1, to, last, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, 1, from, next, TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Type_free(&to);
    MPI_Type_free(&from);
  }
  CHECK(to == MPI_DATATYPE_NULL && from == MPI_DATATYPE_NULL, "a freed type is not null");
  if (freed) MPI_Request_free(&requests[1]);
  MPI_Waitall(freed ? 1 : 2, requests, MPI_STATUSES_IGNORE);
  if (persistent) MPI_Request_free(&requests[0]);
  if (persistent && !freed) MPI_Request_free(&requests[1]);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  in = blank(ROWS * STRIDE), out = filled(ROWS * STRIDE, rank);
  for (int way = 0; way < 8; ++way) type_freed_under(way % 2, way / 2 % 2);
  int result = end();
  free(in);
  free(out);
  return result;
}
