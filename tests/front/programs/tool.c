/* SPDX-License-Identifier: BSD-3-Clause */
/* A profiling tool of the usual kind: defines MPI_X, counts, calls PMPI_X. With
 * MH_TEST_TOOL=prefix, MPI_Finalize writes lines "MPI_X count" to prefix.<pid>. MPI_Pcontrol
 * checks the arguments that pcontrol.c passes after the level. */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int inits, isends, irecvs, waits, sendrecvs, barriers, allreduces, pcontrols, finalizes;

static void report(void) {
  const char* prefix = getenv("MH_TEST_TOOL");
  char name[4096];
  if (prefix == NULL) return;
  snprintf(name, sizeof name, "%s.%d", prefix, (int)getpid());
  FILE* file = fopen(name, "w");
  if (file == NULL) return;
  fprintf(file, "MPI_Init %d\nMPI_Isend %d\nMPI_Irecv %d\nMPI_Waitall %d\nMPI_Sendrecv %d\n", inits,
          isends, irecvs, waits, sendrecvs);
  fprintf(file, "MPI_Barrier %d\nMPI_Allreduce %d\nMPI_Pcontrol %d\nMPI_Finalize %d\n", barriers,
          allreduces, pcontrols, finalizes);
  fclose(file);
}

int MPI_Init(int* argc, char*** argv) {
  ++inits;
  return PMPI_Init(argc, argv);
}

int MPI_Isend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++isends;
  return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Irecv(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++irecvs;
  return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  ++waits;
  return PMPI_Waitall(count, requests, statuses);
}

/* Implements the call by other MPI calls, as some tools do. */
int MPI_Sendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                 MPI_Comm comm, MPI_Status* status) {
  MPI_Request request;
  ++sendrecvs;
  PMPI_Isend(sendbuf, sendcount, sendtype, dest, sendtag, comm, &request);
  PMPI_Recv(recvbuf, recvcount, recvtype, source, recvtag, comm, status);
  return PMPI_Wait(&request, MPI_STATUS_IGNORE);
}

int MPI_Barrier(MPI_Comm comm) {
  ++barriers;
  return PMPI_Barrier(comm);
}

int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  ++allreduces;
  return PMPI_Allreduce(sendbuf, recvbuf, count, type, op, comm);
}

int MPI_Pcontrol(const int level, ...) {
  va_list arguments;
  va_start(arguments, level);
  const int number = va_arg(arguments, int);
  const double real = va_arg(arguments, double);
  va_end(arguments);
  if (level == 2 && number == 7 && real == 2.5) ++pcontrols;
  return PMPI_Pcontrol(level);
}

int MPI_Finalize(void) {
  ++finalizes;
  report();
  return PMPI_Finalize();
}
