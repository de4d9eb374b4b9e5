/* SPDX-License-Identifier: BSD-3-Clause */
/* What stubs.S and stubs.cpp agree on. */
#ifndef MH_OPENMP_STUBS_H
#define MH_OPENMP_STUBS_H

/* Libgomp and libomp have some 300 functions that a program may call, of which half are permitted.
 */
#define MH_STUBS 512

#endif
