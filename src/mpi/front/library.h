/* SPDX-License-Identifier: BSD-3-Clause */
/* Which MPI library this process has, and what follows us in the chain.
 *
 * Words: the *library* is the object that defines PMPI_*; a *tool* is an object behind us that
 * defines MPI_* and is no MPI library. Called once, at the first MPI call. */
#ifndef MH_MPI_FRONT_LIBRARY_H
#define MH_MPI_FRONT_LIBRARY_H

#include "base/elf.h"
#include "mpi/front/table.h"

/* An MPI library defines this one; we do not, so it never leads back to us. */
#define MH_MPI_MARK "PMPI_Get_library_version"

struct mh_library {
  struct mh_object object; /* `dynamic` is NULL: none was found */
  const char* abi;         /* "mpich", "openmpi", "abi"; NULL: not one we know */
  const char* why_not;     /* where abi is NULL */
  char version[160];       /* first line of MPI_Get_library_version */
};

/* `caller`: an address in the object that made the call. */
void mh_library_find(const void* caller, struct mh_library* library);

/* PMPI_`name` of the library ("MPI_Send" is asked for), or NULL. */
mh_function mh_library_function(const struct mh_library* library, const char* name);
/* MPI_`name` of the tool behind us, or NULL. */
mh_function mh_tool_function(const struct mh_library* library, const char* name);

#endif
