// SPDX-License-Identifier: BSD-3-Clause
//
// A rank starts to receive a large message and waits in a broadcast over an intercommunicator. The
// sender enters the broadcast after its send is complete. Such a broadcast has no arrival barrier,
// so the MPI library must carry the message: a rendezvous would hang. Cases: the send begins before
// the intercommunicator exists, or after the receiver has entered the broadcast; gaps are at either
// end or both.
//
// run: ranks 3 MH_CORES=3
// run: ranks 3 helped MH_CORES=3 MH_MEMORY=cells MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=64K MH_MAPPED_THRESHOLD=4K
// run: ranks 3 heap MH_CORES=3 MH_MEMORY=mapped MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=64K MH_MAPPED_THRESHOLD=4K
#include "check.h"

enum { ROUNDS = 10, BLOCKS = 1000, BLOCK = LARGE / BLOCKS };

static MPI_Comm side;
static MPI_Datatype gaps;
static unsigned char* lasting;  // buffer of the persistent send

static MPI_Comm make_inter(void) {
  MPI_Comm inter;
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 3, &inter);
  return inter;
}

// Broadcasts from rank 0 to the other ranks.
static void broadcast(MPI_Comm inter, int round) {
  unsigned char data[100];
  memset(data, rank == 0 ? round : 255, sizeof data);
  MPI_Bcast(data, sizeof data, MPI_BYTE, rank == 0 ? MPI_ROOT : 0, inter);
  CHECK(data[99] == round, "%d in place of %d", data[99], round);
}

// The type, count and stride of a buffer with LARGE bytes of data. The stride is in blocks.
typedef struct {
  MPI_Datatype type;
  int count, extent;
} Shape;

// Copies packed blocks to a buffer whose blocks begin `extent` blocks apart, or back.
static void spread(unsigned char* blocks, unsigned char* packed, int extent, bool back) {
  for (int i = 0; i < BLOCKS; ++i) {
    unsigned char *one = packed + i * BLOCK, *other = blocks + i * extent * BLOCK;
    memcpy(back ? one : other, back ? other : one, BLOCK);
  }
}

// Sends a message from rank 1 to rank 2, which waits for rank 1 in a broadcast on `inter`.
// `persistent` is the persistent send of the message, made before the intercommunicator existed, or
// null.
static void with(Shape out, Shape in, MPI_Request* persistent, bool late, MPI_Comm* inter,
                 int round) {
  const int extent = rank == 1 ? out.extent : in.extent;
  unsigned char *data = blank(LARGE * extent), *packed = filled(LARGE, round);
  if (rank == 1) spread(persistent ? lasting : data, packed, extent, false);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 1 && late) usleep(3000);
  if (rank == 1 && persistent) MPI_Start(persistent);
  if (rank == 1 && !persistent)
    MPI_Isend(data, out.count, out.type, 2, TAG, MPI_COMM_WORLD, &request);
  if (rank == 2) MPI_Irecv(data, in.count, in.type, 1, TAG, MPI_COMM_WORLD, &request);
  if (*inter == MPI_COMM_NULL) *inter = make_inter();
  if (rank == 1 && persistent) MPI_Wait(persistent, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Wait(&request, MPI_STATUS_IGNORE);
  broadcast(*inter, round);
  MPI_Status status;
  MPI_Wait(&request, &status);
  if (rank == 2) {
    check_status(&status, 1, TAG, LARGE);
    memset(packed, 0, LARGE);
    spread(data, packed, extent, true);
    check_bytes(packed, LARGE, round, "beside a broadcast");
  }
  free(packed);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm inter = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &side);
  MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  const Shape dense = {MPI_BYTE, LARGE, 1}, gapped = {gaps, 1, 2};
  MPI_Request made = MPI_REQUEST_NULL;
  lasting = blank(LARGE);
  if (rank == 1) MPI_Send_init(lasting, LARGE, MPI_BYTE, 2, TAG, MPI_COMM_WORLD, &made);
  for (int round = 0; round < ROUNDS; ++round) {
    for (int late = 0; late < 2; ++late) {
      with(dense, dense, NULL, late, &inter, round);
      with(gapped, gapped, NULL, late, &inter, round);
      with(dense, gapped, NULL, late, &inter, round);
      with(gapped, dense, NULL, late, &inter, round);
      with(dense, gapped, &made, late, &inter, round);
    }
    if (round % 2 == 1) MPI_Comm_free(&inter);
  }
  if (rank == 1) MPI_Request_free(&made);
  free(lasting);
  MPI_Type_free(&gaps);
  MPI_Comm_free(&side);
  return end();
}
