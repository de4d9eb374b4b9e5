// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators are duplicated, split, created from groups and freed 1000 times. Some communicators
// carry a large message or a barrier, and some are freed before their message completes. State kept
// under a handle that the library reuses would hang or misdirect a message.
//
// run: ranks 2
// run: ranks 4
#include "check.h"

enum { TIMES = 500 };

static void talk(MPI_Comm comm, int key, bool free_early) {
  int own, size;
  MPI_Comm_rank(comm, &own);
  MPI_Comm_size(comm, &size);
  int next = (own + 1) % size, last = (own + size - 1) % size;
  unsigned char *out = filled(THRESHOLD + 8, key + own), *in = blank(THRESHOLD + 8);
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Irecv(in, THRESHOLD + 8, MPI_BYTE, last, TAG, comm, &requests[0]);
  MPI_Isend(out, THRESHOLD + 8, MPI_BYTE, next, TAG, comm, &requests[1]);
  if (free_early) MPI_Comm_free(&comm);
  MPI_Waitall(2, requests, statuses);
  check_status(&statuses[0], last, TAG, THRESHOLD + 8);
  check_bytes(in, THRESHOLD + 8, key + last, "on a new communicator");
  if (!free_early) MPI_Comm_free(&comm);
  free(in);
  free(out);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int times = ranks > 2 ? TIMES / 10 : TIMES;  // slow with more ranks than cores
  for (int i = 0; i < times; ++i) {
    MPI_Comm first, second;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    if (i % 3 == 0) MPI_Comm_split(first, rank % 2, -rank, &second);
    if (i % 3 == 1) MPI_Comm_split_type(first, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &second);
    if (i % 3 == 2) {
      MPI_Group group;
      MPI_Comm_group(first, &group);
      MPI_Comm_create(first, group, &second);
      MPI_Group_free(&group);
    }
    if (i % 7 == 0) MPI_Barrier(second);
    if (i % 10 == 0) {
      talk(second, i, i % 20 == 0);
    } else {
      MPI_Comm_free(&second);
    }
    MPI_Comm_free(&first);
  }
  return end();
}
