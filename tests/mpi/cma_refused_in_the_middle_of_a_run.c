// SPDX-License-Identifier: BSD-3-Clause
//
// After some large messages the kernel begins to refuse process_vm_readv and process_vm_writev: to
// rank 0, to rank 1, or to all ranks, also while messages are pending. The data stays right. If a
// refused copy counted as done, the receiver would find old bytes. The MPI libraries' own use of
// these calls is off, because they do not survive the refusal.
//
// run: ranks 2 helped nocma WHO=0
// run: ranks 2 helped nocma WHO=1
// run: ranks 3 helped nocma WHO=all
#include "check.h"
#include "refusal.h"

// After the kernel has refused a copy, messages go through cells for a while. ROUNDS is large
// enough that Manyhands tries single copies again.
enum { ROUNDS = 40, REFUSED_FROM = 4 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* who = getenv("WHO");
  bool me = who != NULL && (strcmp(who, "all") == 0 || atoi(who) == rank);
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int round = 0; round < ROUNDS; ++round) {
    unsigned char *out = filled(LARGE, 10 * round + rank), *in = blank(LARGE);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(in, LARGE, MPI_BYTE, last, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, LARGE, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &requests[1]);
    if (round == REFUSED_FROM && me) {
      if (refuse_remote_copies() != 0) {
        printf("SKIP seccomp filters cannot be installed here\n");
        fflush(stdout);
      } else {
        CHECK(remote_copies_are_refused(), "the filter does not refuse");
      }
    }
    MPI_Waitall(2, requests, statuses);
    check_status(&statuses[0], last, TAG, LARGE);
    check_bytes(in, LARGE, 10 * round + last, "after the refusal");
    check_bytes(out, LARGE, 10 * round + rank, "the send buffer");
    free(in);
    free(out);
  }
  if (rank == 0) {
    unsigned char* out = filled(LARGE, 7);
    for (int i = 1; i < ranks; ++i) MPI_Send(out, LARGE, MPI_BYTE, i, TAG, MPI_COMM_WORLD);
    free(out);
  } else {
    unsigned char* in = blank(LARGE);
    MPI_Status status;
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    check_status(&status, 0, TAG, LARGE);
    MPI_Recv(in, LARGE, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    check_status(&status, 0, TAG, LARGE);
    check_bytes(in, LARGE, 7, "a blocking message after the refusal");
    free(in);
  }
  return end();
}
