/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI library of this process, and the tool behind Manyhands.
 *
 * The *library* is the object that defines PMPI_*. A *tool* is an object behind libmanyhands.so in
 * the loader's search order that defines MPI_* and is no MPI library. Used at the first MPI call,
 * by one thread. */
#ifndef MH_MPI_FRONT_LIBRARY_H
#define MH_MPI_FRONT_LIBRARY_H

#include "base/elf.h"
#include "mpi/front/table.h"

/* Every MPI library defines this function. Manyhands does not define it, so a search for the
 * function never finds libmanyhands.so. */
#define MH_MPI_MARK "PMPI_Get_library_version"

struct mh_library {
  struct mh_object object; /* `dynamic` is NULL: no library was found */
  const char* abi;         /* "mpich", "openmpi", "abi"; NULL: unknown */
  const char* why_not;     /* set if abi is NULL */
  char version[160];       /* first line of MPI_Get_library_version */
};

/* Finds the library for a call from the object with the address `caller`, and describes the library
 * in `library`. */
void mh_library_find(const void* caller, struct mh_library* library);

/* The library's PMPI function for `name` (PMPI_Send for "MPI_Send"), or NULL. */
mh_function mh_library_function(const struct mh_library* library, const char* name);
/* The function `name` ("MPI_Send") of the tool behind Manyhands, or NULL. */
mh_function mh_tool_function(const struct mh_library* library, const char* name);

#endif
