/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the C and the assembler parts of the front share. */
#ifndef MH_MPI_FRONT_FRONT_H
#define MH_MPI_FRONT_FRONT_H

#include <stdint.h>

#include "front/calls.h"
#include "mpi/front/table.h"

/* "PMPI_Send"; from the second character on, "MPI_Send". In the order of calls.json. */
extern const char mh_names[MH_CALLS][40];

/* The jump slots (exports.S): written in the first MPI call and by mh_chain::publish, read by every
 * call. */
extern mh_function mh_mpi_jumps[MH_CALLS];
extern mh_function mh_pmpi_jumps[MH_CALLS];

/* Called from exports.S with all argument registers saved. `slot`: the number of the jump slot.
 * Both return the function to which exports.S then jumps. mh_resolve(): at the first call; `caller`
 * is the caller's return address. mh_watch(): at each observed call, whose first argument is
 * `first`. */
mh_function mh_resolve(uint32_t slot, const void* caller);
mh_function mh_watch(uint32_t slot, intptr_t first);
/* Called by the loader (resolvers.c). */
const void* mh_present(uint32_t call, const void* export);

#endif
