// SPDX-License-Identifier: BSD-3-Clause
//
// Large messages over an intercommunicator go to ranks of the remote group, and their statuses name
// ranks of that group. Barrier, broadcast and a merged communicator work. A library that looked
// ranks up in the local group would copy from the wrong process.
//
// run: ranks 2
// run: ranks 3
// run: ranks 4
// run: ranks 4 helped MH_FAKE_NODES=2
#include "check.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int half = ranks / 2, remote, own;
  bool low = rank < half;
  MPI_Comm side, inter, merged;
  MPI_Comm_split(MPI_COMM_WORLD, low, -rank, &side);
  // The keys in MPI_Comm_split are negative, so the leader of each side is its highest rank.
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, low ? ranks - 1 : half - 1, 3, &inter);
  MPI_Comm_remote_size(inter, &remote);
  MPI_Comm_rank(inter, &own);
  for (int peer = 0; peer < remote; ++peer) {
    unsigned char *out = filled(LARGE, 10 * own + peer), *in = blank(LARGE);
    MPI_Status status;
    if (low) {
      MPI_Send(out, LARGE, MPI_BYTE, peer, TAG, inter);
      MPI_Recv(in, LARGE, MPI_BYTE, peer, TAG, inter, &status);
    } else {
      MPI_Recv(in, LARGE, MPI_BYTE, peer, TAG, inter, &status);
      MPI_Send(out, LARGE, MPI_BYTE, peer, TAG, inter);
    }
    check_status(&status, peer, TAG, LARGE);
    check_bytes(in, LARGE, 10 * peer + own, "over an intercommunicator");
    free(in);
    free(out);
  }
  MPI_Barrier(inter);
  unsigned char* data = low && own == 0 ? filled(LARGE, 77) : blank(LARGE);
  MPI_Bcast(data, LARGE, MPI_BYTE, !low ? 0 : own == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
  if (!low) check_bytes(data, LARGE, 77, "a broadcast over an intercommunicator");
  MPI_Intercomm_merge(inter, low, &merged);
  MPI_Barrier(merged);
  free(data);
  MPI_Comm_free(&merged);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&side);
  return end();
}
