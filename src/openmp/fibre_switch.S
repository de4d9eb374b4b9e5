/* SPDX-License-Identifier: BSD-3-Clause */
/* Switches the calling thread to another stack (fibres.cpp). Saves and restores the registers that
 * a called function must preserve; rounding modes and exception flags stay those of the thread. */

        .text

/* void mh_fibre_switch(void** from, void* to): stores the stack pointer in *from and continues on
 * the stack whose stored pointer is `to`. */
        .hidden mh_fibre_switch
        .globl  mh_fibre_switch
        .type   mh_fibre_switch, %function
        .p2align 4
mh_fibre_switch:
        .cfi_startproc
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        ret
        .cfi_endproc
        .size   mh_fibre_switch, . - mh_fibre_switch

/* The first code on a new stack: calls the function in r13, which never returns, with r12. */
        .hidden mh_fibre_first
        .globl  mh_fibre_first
        .type   mh_fibre_first, %function
        .p2align 4
mh_fibre_first:
        .cfi_startproc
        .cfi_undefined rip
        movq    %r12, %rdi
        call    *%r13
        ud2
        .cfi_endproc
        .size   mh_fibre_first, . - mh_fibre_first

        .section .note.GNU-stack, "", %progbits
