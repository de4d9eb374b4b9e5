// SPDX-License-Identifier: BSD-3-Clause
//
// A message of 100 bytes is received into 10 bytes, which is an error. The large message of the
// same tag behind it is intact, and so are the messages of the other sender. If Manyhands thought
// that the RTS header of the large message was truncated, it would resend or drop that message.
//
// run: ranks 3
// run: ranks 3 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
#include "check.h"

static void send_both(int key) {
  unsigned char* small = filled(100, key);
  unsigned char* data = filled(LARGE, key);
  MPI_Request requests[2];
  MPI_Isend(small, 100, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[1]);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  free(data);
  free(small);
}

static void receive_both(int source, int key) {
  unsigned char* data = blank(LARGE);
  MPI_Request request;
  MPI_Status status;
  int code = MPI_SUCCESS;
  if (key % 2 == 0) {
    code = MPI_Recv(data, 10, MPI_BYTE, source, TAG, MPI_COMM_WORLD, &status);
  } else {
    MPI_Irecv(data, 10, MPI_BYTE, source, TAG, MPI_COMM_WORLD, &request);
    code = MPI_Wait(&request, &status);
  }
  CHECK(class_of(code) == MPI_ERR_TRUNCATE, "100 bytes into 10: error class %d", class_of(code));
  code = MPI_Recv(data, LARGE, MPI_BYTE, source, TAG, MPI_COMM_WORLD, &status);
  CHECK(code == MPI_SUCCESS, "the message behind it: error class %d", class_of(code));
  check_status(&status, source, TAG, LARGE);
  check_bytes(data, LARGE, key, "the message behind a truncated one");
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int key = 0; key < 6; ++key) {
    if (rank != 1) {
      send_both(key);
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
      receive_both(2, key);
      receive_both(0, key);
    }
  }
  return end();
}
