/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints which calls of MPI 4 the program finds. Built as a plugin of late.c, and as a program. */
#include <stdio.h>

#define WEAK(name) extern int name() __attribute__((weak))
WEAK(MPI_Send_c);
WEAK(MPI_Isendrecv);
WEAK(MPI_Comm_idup_with_info);
WEAK(MPI_Allreduce_c);
WEAK(MPI_Send);
extern int MPI_Init(int*, char***);
extern int MPI_Finalize(void);

int run(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  printf("Send_c %d Isendrecv %d Comm_idup_with_info %d Allreduce_c %d Send %d\n", MPI_Send_c != 0,
         MPI_Isendrecv != 0, MPI_Comm_idup_with_info != 0, MPI_Allreduce_c != 0, MPI_Send != 0);
  MPI_Finalize();
  return 0;
}
