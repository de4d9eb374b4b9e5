/* SPDX-License-Identifier: BSD-3-Clause */
/* A variadic call with arguments in integer and in vector registers (tool.c checks them). */
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Pcontrol(2, 7, 2.5);
  MPI_Finalize();
  return 0;
}
