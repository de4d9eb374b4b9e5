// SPDX-License-Identifier: BSD-3-Clause
//
// A communicator has MPI_ERRORS_RETURN from its constructor, or by the call of MPI 1 that sets
// handlers ($BY). A truncated receive on it returns the error; MPI_COMM_WORLD keeps the handler
// that ends the job.
//
// run: ranks 2 BY=group not openmpi4,openmpi5
// run: ranks 2 BY=groups not openmpi4,openmpi5
// run: ranks 2 BY=mpi1 not abi
#include <dlfcn.h>

#include "check.h"

static MPI_Comm by_group(void) {
  MPI_Comm made = MPI_COMM_NULL;
#if MPI_VERSION >= 4
  MPI_Group all;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Comm_create_from_group(all, "test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
  MPI_Group_free(&all);
#endif
  return made;
}

static MPI_Comm by_groups(void) {
  MPI_Comm made = MPI_COMM_NULL;
#if MPI_VERSION >= 4
  const int other = 1 - rank;
  MPI_Group all, mine, others;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &rank, &mine);
  MPI_Group_incl(all, 1, &other, &others);
  MPI_Intercomm_create_from_groups(mine, 0, others, 0, "test", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                   &made);
  MPI_Group_free(&all);
  MPI_Group_free(&mine);
  MPI_Group_free(&others);
#endif
  return made;
}

// Some mpi.h no longer declare the call, though the library still has it.
static MPI_Comm by_mpi1(void) {
  union {
    void* address;
    int (*call)(MPI_Comm, MPI_Errhandler);
  } set = {dlsym(RTLD_DEFAULT, "MPI_Errhandler_set")};
  MPI_Comm made = MPI_COMM_NULL;
  if (set.address == NULL) return made;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  set.call(made, MPI_ERRORS_RETURN);
  return made;
}

// In a tight loop of collectives one fails on rank 0 alone. No later collective waits for a rank
// that is not needed: rank 1, the root, leaves each broadcast before rank 0 enters it.
static void fail_alone(MPI_Comm comm) {
  int data = 0, sum = 0;
  for (int i = 0; i < 5000; ++i) MPI_Allreduce(&data, &sum, 1, MPI_INT, MPI_SUM, comm);
  if (rank == 0) CHECK(MPI_Bcast(&data, -1, MPI_INT, 1, comm) != MPI_SUCCESS, "a count of -1");
  for (int i = 0; i < 100; ++i) {
    usleep(rank == 0 ? 200 : 0);
    MPI_Bcast(&data, 1, MPI_INT, 1, comm);
    if (rank == 0) MPI_Send(&data, 1, MPI_INT, 1, TAG, comm);
    if (rank == 1) MPI_Recv(&data, 1, MPI_INT, 0, TAG, comm, MPI_STATUS_IGNORE);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* by = getenv("BY");
  MPI_Comm comm = MPI_COMM_NULL;
  if (strcmp(by, "group") == 0) comm = by_group();
  if (strcmp(by, "groups") == 0) comm = by_groups();
  if (strcmp(by, "mpi1") == 0) comm = by_mpi1();
  if (comm == MPI_COMM_NULL) return skip("this library lacks the call");
  int is_inter = 0;
  MPI_Comm_test_inter(comm, &is_inter);
  const int other = is_inter ? 0 : 1 - rank;
  char data[200] = "";
  if (rank == 0) MPI_Send(data, 200, MPI_BYTE, other, TAG, comm);
  if (rank == 1) {
    usleep(3000);
    const int code = MPI_Recv(data, 100, MPI_BYTE, other, TAG, comm, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE, "class %d", class_of(code));
  }
  if (!is_inter) fail_alone(comm);
  MPI_Comm_free(&comm);
  return end();
}
