/* SPDX-License-Identifier: BSD-3-Clause */
/* How a call jumps through a slot on x86-64. For exports.S.
 * A detour carries the number of the slot. */
#include "base/detour_x86_64.S"

.macro jump slots, index
        jmp     *\slots + 8 * \index(%rip)
.endm

.macro ask_presence index
        movl    $\index, %edi
        leaq    mh_export_\index(%rip), %rsi
        jmp     mh_present
.endm

        detour  first_call, mh_resolve, 8(%rbp)         /* the caller's return address */
        detour  watched, mh_watch, 0(%rsp)              /* the first argument */
