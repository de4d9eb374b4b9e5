/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported MPI_X and PMPI_X. Each is one indirect jump through its jump slot, so that all
 * arguments arrive as they were passed, also those of a variadic call. exports.inc lists the calls.
 *
 * A *jump slot* is a function pointer. The jump slot of MPI_X has the number 2 * index, that of
 * PMPI_X the next number; `index` is the call's position in calls.json. Initially a jump slot leads
 * to `first_call`, which asks mh_resolve() in front.c for the function and jumps to it. */
#include "front/calls.h"

        .text

#include "mpi/front/jump_x86_64.S"

.macro slots name
        .pushsection .data.\name, "aw", %progbits
        .p2align 6
        .hidden \name
        .globl  \name
        .type   \name, %object
        .size   \name, 8 * MH_CALLS
\name:
        .popsection
.endm

        slots   mh_mpi_jumps
        slots   mh_pmpi_jumps

.macro export symbol, slots, index, which
        .globl  \symbol
        .type   \symbol, %function
        .p2align 4
\symbol:
        .cfi_startproc
        jump    \slots, \index
        .cfi_endproc
        .size   \symbol, . - \symbol

        .pushsection .text.first_calls, "ax", %progbits
        .p2align 2
first_\symbol:
        .cfi_startproc
        numbered (2 * \index + \which), first_call
        .cfi_endproc
        .popsection

        .pushsection .data.\slots, "aw", %progbits
        .quad   first_\symbol
        .popsection
.endm

.macro always index, name
        export  MPI_\name, mh_mpi_jumps, \index, 0
        export  PMPI_\name, mh_pmpi_jumps, \index, 1
.endm

.macro hidden_function symbol
        .hidden \symbol
        .globl  \symbol
        .type   \symbol, %function
        .p2align 2
\symbol:
.endm

/* A call that older libraries lack: the loader asks mh_presence_N for the address of MPI_X
 * (resolvers.c). */
.macro sometimes index, name
        always  \index, \name
        .hidden mh_export_\index
        .globl  mh_export_\index
        .set    mh_export_\index, MPI_\name
        hidden_function mh_presence_\index
        .cfi_startproc
        ask_presence \index
        .cfi_endproc
.endm

/* A call that is only observed: its jump slot leads to mh_watched_N, which calls the variant's
 * watcher and then jumps to the next layer. */
.macro observe index, name
        always  \index, \name
        hidden_function mh_watched_\index
        .cfi_startproc
        numbered (2 * \index), watched
        .cfi_endproc
.endm

#define MH_ALWAYS(index, name) always index, name
#define MH_SOMETIMES(index, name) sometimes index, name
#define MH_OBSERVE(index, name) observe index, name
#include "front/exports.inc"

        .section .note.GNU-stack, "", %progbits
