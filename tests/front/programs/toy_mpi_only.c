/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI_X half of a library that keeps PMPI_X (toy_mpi.c) in another. */
extern int PMPI_Barrier(long comm);
int MPI_Barrier(long comm) { return PMPI_Barrier(comm); }
