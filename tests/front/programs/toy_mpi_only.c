/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI_X half of a library whose PMPI_X is in another library (toy_mpi.c). */
extern int PMPI_Barrier(long comm);
int MPI_Barrier(long comm) { return PMPI_Barrier(comm); }
