/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by stubs.S and stubs.cpp. */
#ifndef MH_OPENMP_STUBS_H
#define MH_OPENMP_STUBS_H

/* The number of stubs. Libgomp and libomp have about 300 functions that a program may call; half
 * are permitted. */
#define MH_STUBS 512

#endif
