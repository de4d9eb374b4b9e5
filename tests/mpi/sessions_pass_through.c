// SPDX-License-Identifier: BSD-3-Clause
//
// A program that uses MPI-4 sessions and never calls MPI_Init: communicators made from sessions
// carry messages. Manyhands has not started, so a call that used its services would crash.
//
// run: ranks 2 not openmpi4,openmpi5
#include "check.h"

int main(int argc, char** argv) {
#if MPI_VERSION >= 4
  (void)argc;
  (void)argv;
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Group_free(&group);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  int other = 1 - rank;
  bool right = true;
  for (int round = 0; round < 4; ++round) {
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    memset(out, 10 * round + rank, LARGE);
    MPI_Status status;
    MPI_Sendrecv(out, LARGE, MPI_BYTE, other, TAG, in, LARGE, MPI_BYTE, other, TAG, comm, &status);
    for (int i = 0; i < LARGE; ++i) right = right && in[i] == 10 * round + other;
    MPI_Barrier(comm);
    free(in);
    free(out);
  }
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
  if (rank == 0 && right) printf("PASS\n");
  return right ? 0 : 3;
#else
  begin(&argc, &argv);
  return skip("this library is older than MPI 4");
#endif
}
