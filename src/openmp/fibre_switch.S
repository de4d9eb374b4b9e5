/* SPDX-License-Identifier: BSD-3-Clause */
/* Switches the calling thread to another stack (fibres.cpp). Keeps the registers that a called
 * function must keep; rounding modes and exception flags stay those of the thread. */

        .text

/* void mh_fibre_switch(void** from, void* to): leaves the current stack's pointer in *from. */
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

/* The first code on a stack: calls the function in r13 with r12, which never returns. */
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
