// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel refuses process_vm_readv and process_vm_writev before MPI_Init, to all ranks or to one
// rank. Manyhands reports the refusal in one line, and the MPI library carries the messages. A
// library that did not try the calls at the start would find old bytes or hang. MPICH 5 does not
// survive the refusal in its own use of these calls.
//
// run: ranks 2 nocma says "cannot read each other's memory"
// run: ranks 3 nocma says "cannot read each other's memory" WHO=1
#include "check.h"
#include "refusal.h"

static int launcher_rank(void) {
  const char* const names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"};
  for (int i = 0; i < 3; ++i) {
    if (getenv(names[i]) != NULL) return atoi(getenv(names[i]));
  }
  return -1;
}

int main(int argc, char** argv) {
  const char* who = getenv("WHO");
  int refused = 0;
  if (who == NULL || atoi(who) == launcher_rank()) refused = refuse_remote_copies();
  begin(&argc, &argv);
  if (refused != 0) return skip("seccomp filters cannot be installed here");
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 4; ++round) {
    unsigned char *out = filled(LARGE, 10 * round + rank), *in = blank(LARGE);
    MPI_Status status;
    MPI_Sendrecv(out, LARGE, MPI_BYTE, next, TAG, in, LARGE, MPI_BYTE, last, TAG, MPI_COMM_WORLD,
                 &status);
    check_status(&status, last, TAG, LARGE);
    check_bytes(in, LARGE, 10 * round + last, "without process_vm_readv");
    free(in);
    free(out);
  }
  return end();
}
