/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout engine as a C library beside an MPI, for programs that link both: tests and benchmarks
 * compare the engine with MPI_Pack. No part of this library is in libmanyhands.so. */
#ifndef MH_MPI_ENGINE_ENGINE_H
#define MH_MPI_ENGINE_ENGINE_H

#include <stddef.h>
#include <sys/uio.h>

#ifdef __cplusplus
#include "mpi/abi.hpp"
extern "C" {
#else
#include <mpi.h>
#endif

/* Called once, after MPI_Init. Returns 0, or -1 if the MPI is not the one for which this archive
 * was compiled. */
int mh_engine_open(void);

/* Sets the size in bytes of the last cache before memory; 0, the default: not known. A range longer
 * than half this size is moved past the caches. Not to be called while another thread packs. */
void mh_engine_last_cache(size_t bytes);

/* The layout of a type, or NULL if the engine cannot read the type. The layout outlives the type
 * until the caller closes it. */
typedef struct mh_layout mh_layout;
mh_layout* mh_layout_of(MPI_Datatype type);
void mh_layout_close(mh_layout* layout);
/* Called before the type is freed. */
void mh_layout_forget(MPI_Datatype type);

/* The size of an element in bytes, and its number of contiguous blocks. */
size_t mh_layout_size(const mh_layout* layout);
size_t mh_layout_blocks(const mh_layout* layout);

/* Pack or unpack bytes [begin, end) of the packed stream of `count` elements at `base`. `packed`
 * holds byte `begin`. Return the number of bytes moved. */
size_t mh_layout_pack(const mh_layout* layout, size_t count, const void* base, size_t begin,
                      size_t end, void* packed);
size_t mh_layout_unpack(const mh_layout* layout, size_t count, void* base, size_t begin, size_t end,
                        const void* packed);
/* Lists the first blocks of bytes [begin, end), at most `entries` blocks, in `room`. Returns the
 * number of blocks listed; `*bytes`: their bytes. */
size_t mh_layout_list(const mh_layout* layout, size_t count, const void* base, size_t begin,
                      size_t end, struct iovec* room, size_t entries, size_t* bytes);
/* Copies bytes [begin, end) of the packed stream from one layout to another, through a scratch
 * buffer. Returns the number of bytes moved. */
size_t mh_layout_copy(const mh_layout* to, void* to_base, const mh_layout* from,
                      const void* from_base, size_t count, size_t begin, size_t end, void* scratch,
                      size_t scratch_bytes);

#ifdef __cplusplus
}
#endif
#endif
