/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the C and the assembler parts of the front. */
#ifndef MH_MPI_FRONT_FRONT_H
#define MH_MPI_FRONT_FRONT_H

#include <stdint.h>

#include "front/calls.h"
#include "mpi/front/table.h"

/* "PMPI_Send"; from the second character on, "MPI_Send". In the order of calls.json. */
extern const char mh_names[MH_CALLS][40];

/* The slots: written once by mh_resolve(), read by every call (exports.S). */
extern mh_function mh_mpi[MH_CALLS];
extern mh_function mh_pmpi[MH_CALLS];

/* Called from exports.S with all argument registers saved. */
mh_function mh_resolve(uint32_t slot, const void* caller);
mh_function mh_watch(uint32_t slot, intptr_t first);
const void* mh_present(uint32_t call, const void* export);

#endif
