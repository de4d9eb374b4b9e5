/* SPDX-License-Identifier: BSD-3-Clause */
/* How a call jumps on through a slot on aarch64. For exports.S.
 * The number that a detour carries is that of the slot. The slot is read with acquire: a thread that
 * sees the wrapper must also see what the variant wrote before it was published. */
#include "base/detour_aarch64.S"

.macro jump slots, index
        adrp    x16, \slots + 8 * \index
        add     x16, x16, :lo12:\slots + 8 * \index
        ldar    x16, [x16]
        br      x16
.endm

.macro ask_presence index
        mov     w0, #\index
        adrp    x1, mh_export_\index
        add     x1, x1, :lo12:mh_export_\index
        b       mh_present
.endm

        detour  first_call, mh_resolve, x30             /* the caller's return address */
        detour  watched, mh_watch, x0                   /* the first argument */
