// SPDX-License-Identifier: BSD-3-Clause
//
// A rank that has started to receive a large message waits in a broadcast over an
// intercommunicator, which its sender enters only when the message is gone: nobody waits for late
// ranks there, so the library must have the message. The same with a message that was on its way
// before the intercommunicator was made.
//
// run: ranks 3 MH_CORES=3
// run: ranks 3 helped MH_CORES=3 MH_MEMORY=cells MH_THRESHOLD=64K,64K,4K
// run: ranks 3 heap MH_CORES=3 MH_MEMORY=mapped MH_THRESHOLD=64K,64K,4K
#include "check.h"

enum { ROUNDS = 10, BLOCKS = 1000, BLOCK = LARGE / BLOCKS };

static MPI_Comm side;
static MPI_Datatype gaps;

static MPI_Comm make_inter(void) {
  MPI_Comm inter;
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 3, &inter);
  return inter;
}

// From rank 0 to the others.
static void broadcast(MPI_Comm inter, int round) {
  unsigned char data[100];
  memset(data, rank == 0 ? round : 255, sizeof data);
  MPI_Bcast(data, sizeof data, MPI_BYTE, rank == 0 ? MPI_ROOT : 0, inter);
  CHECK(data[99] == round, "%d in place of %d", data[99], round);
}

static void with(MPI_Datatype type, int count, int extent, MPI_Comm* inter, int round) {
  unsigned char* data = rank == 1 ? filled(LARGE * extent, round) : blank(LARGE * extent);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 1) MPI_Isend(data, count, type, 2, TAG, MPI_COMM_WORLD, &request);
  if (rank == 2) MPI_Irecv(data, count, type, 1, TAG, MPI_COMM_WORLD, &request);
  if (*inter == MPI_COMM_NULL) *inter = make_inter();
  if (rank == 1) MPI_Wait(&request, MPI_STATUS_IGNORE);
  broadcast(*inter, round);
  MPI_Status status;
  MPI_Wait(&request, &status);
  if (rank == 2) {
    check_status(&status, 1, TAG, LARGE);
    if (extent == 1) check_bytes(data, LARGE, round, "beside a broadcast");
  }
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm inter = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &side);
  MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  for (int round = 0; round < ROUNDS; ++round) {
    with(MPI_BYTE, LARGE, 1, &inter, round);
    with(gaps, 1, 2, &inter, round);
    if (round % 2 == 1) MPI_Comm_free(&inter);
  }
  MPI_Type_free(&gaps);
  MPI_Comm_free(&side);
  return end();
}
