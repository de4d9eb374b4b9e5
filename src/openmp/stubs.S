/* SPDX-License-Identifier: BSD-3-Clause */
/* MH_STUBS entry points, 16 bytes apart. Each calls mh_openmp_noticed(), which returns the function
 * to continue with (stubs.hpp). */
#include "openmp/stubs.h"

        .text

#include "base/detour_x86_64.S"
        detour  noticed, mh_openmp_noticed, 8(%rbp)     /* the caller's return address */

        .hidden mh_openmp_stubs
        .globl  mh_openmp_stubs
        .type   mh_openmp_stubs, %function
        .p2align 4
mh_openmp_stubs:
        .cfi_startproc
        .set    number, 0
        .rept   MH_STUBS
        .p2align 4
        numbered number, noticed
        .set    number, number + 1
        .endr
        .cfi_endproc
        .size   mh_openmp_stubs, . - mh_openmp_stubs

        .section .note.GNU-stack, "", %progbits
