/* SPDX-License-Identifier: BSD-3-Clause */
/* The x86-64 code of the jumps in exports.S: through a jump slot, to mh_present(), and the two
 * detours (base/detour_x86_64.S), which carry the number of the jump slot. */
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
