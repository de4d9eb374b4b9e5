// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Pcontrol(0) and (1) between and around pending large messages, and the info key
// post_comm_access on a communicator, do not change the data. A receiver whose helping is off must
// still take a rendezvous message, or its sender would hang.
//
// run: ranks 2
// run: ranks 2 helped MH_POST_COMM_ACCESS=hi-to-lo
// run: ranks 2 helped MH_POST_COMM_ACCESS=lo-to-hi
//
// run: ranks 3 helped MH_STRATEGY=localized
// run: ranks 3 helped MH_STRATEGY=mixed
//
// run: ranks 3 helped MH_CHUNK=4096
// run: ranks 3 helped MH_CHUNK=64M
// run: ranks 3 helped MH_THRESHOLD=4K MH_EXCHANGE_THRESHOLD=4K
// run: ranks 3 helped says "MH_THRESHOLD=1024 counts as 4096" MH_THRESHOLD=1K MH_EXCHANGE_THRESHOLD=4K
// run: ranks 2 helped MH_ENABLE=0
#include "check.h"

// Sends a message from `from` to the next rank, while all other ranks wait. A `level_between` that
// is not negative is set by MPI_Pcontrol while the message is under way.
static void pass_on(MPI_Comm comm, int from, int key, int level_between) {
  const int next = (from + 1) % ranks;
  unsigned char* data = rank == from ? filled(LARGE, key + from) : blank(LARGE);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == from) MPI_Isend(data, LARGE, MPI_BYTE, next, TAG, comm, &request);
  if (rank == next) MPI_Irecv(data, LARGE, MPI_BYTE, from, TAG, comm, &request);
  if (level_between >= 0) MPI_Pcontrol(level_between);
  MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
  if (rank == next) check_bytes(data, LARGE, key + from, "around MPI_Pcontrol");
  free(data);
  MPI_Barrier(comm);
}

// Sends a message from each rank in turn. If all ranks sent at once, the messages would be
// exchanges, which mostly go eager.
static void ring(MPI_Comm comm, int key, int level_between) {
  for (int from = 0; from < ranks; ++from) pass_on(comm, from, key, level_between);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  for (int i = 0; i < 12; ++i) {
    MPI_Pcontrol(i % 4 == 1 ? rank % 2 : i % 2);
    ring(MPI_COMM_WORLD, i, i % 3 == 0 ? 1 - i % 2 : -1);
  }
  MPI_Pcontrol(1);
  const char* const orders[] = {"random", "lo-to-hi", "hi-to-lo", "nonsense"};
  for (int i = 0; i < 4; ++i) {
    MPI_Comm comm;
    MPI_Info info;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Info_create(&info);
    MPI_Info_set(info, "post_comm_access", orders[i]);
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
    ring(comm, 50 + i, -1);
    MPI_Comm_free(&comm);
    if (i == 3) break;
    MPI_Info_create(&info);
    MPI_Info_set(info, "post_comm_access", orders[i]);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    ring(comm, 60 + i, -1);
    MPI_Comm_free(&comm);
  }
  return end();
}
