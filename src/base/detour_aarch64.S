/* SPDX-License-Identifier: BSD-3-Clause */
/* How a call of any signature asks a C function where it goes on, on aarch64.
 *
 * x17 carries a number, x16 an address: the procedure call standard leaves both to veneers. On the way
 * through C x0 to x8 and q0 to q7 are kept. */

.macro numbered slot, target
        mov     w17, #\slot
        b       \target
.endm

.macro save
        stp     x29, x30, [sp, #-224]!
        .cfi_def_cfa_offset 224
        .cfi_offset x29, -224
        .cfi_offset x30, -216
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        str     x8, [sp, #80]
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        stp     q4, q5, [sp, #160]
        stp     q6, q7, [sp, #192]
.endm

.macro restore
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldr     x8, [sp, #80]
        ldp     q0, q1, [sp, #96]
        ldp     q2, q3, [sp, #128]
        ldp     q4, q5, [sp, #160]
        ldp     q6, q7, [sp, #192]
        ldp     x29, x30, [sp], #224
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
.endm

/* \name: \function(number, second) says where the call goes on. */
.macro detour name, function, second
        .type   \name, %function
\name:
        .cfi_startproc
        save
        mov     x1, \second
        mov     w0, w17
        bl      \function
        mov     x16, x0
        restore
        br      x16
        .cfi_endproc
        .size   \name, . - \name
.endm
