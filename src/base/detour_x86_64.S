/* SPDX-License-Identifier: BSD-3-Clause */
/* Redirects calls of any signature, on x86-64: a C function returns the address to continue at.
 *
 * A stub made by `numbered` puts its slot number into r11 and jumps to a `detour`. The detour passes
 * the number to the C function. Every argument register is saved around the C function: the six integer
 * registers, rax (al counts the vector registers of a variadic call), r10, and xmm0 to xmm7. The
 * upper halves of wider vectors are lost; no function of Manyhands or of an OpenMP run time takes
 * such an argument. */

.macro numbered slot, target
        movl    $\slot, %r11d
        jmp     \target
.endm

/* The stack is aligned to 16 after: 8 (return address) + 8 (rbp) + 192. */
.macro save
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        subq    $192, %rsp
        movq    %rdi, 0(%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, 16(%rsp)
        movq    %rcx, 24(%rsp)
        movq    %r8, 32(%rsp)
        movq    %r9, 40(%rsp)
        movq    %rax, 48(%rsp)
        movq    %r10, 56(%rsp)
        movaps  %xmm0, 64(%rsp)
        movaps  %xmm1, 80(%rsp)
        movaps  %xmm2, 96(%rsp)
        movaps  %xmm3, 112(%rsp)
        movaps  %xmm4, 128(%rsp)
        movaps  %xmm5, 144(%rsp)
        movaps  %xmm6, 160(%rsp)
        movaps  %xmm7, 176(%rsp)
.endm

.macro restore
        movq    0(%rsp), %rdi
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdx
        movq    24(%rsp), %rcx
        movq    32(%rsp), %r8
        movq    40(%rsp), %r9
        movq    48(%rsp), %rax
        movq    56(%rsp), %r10
        movaps  64(%rsp), %xmm0
        movaps  80(%rsp), %xmm1
        movaps  96(%rsp), %xmm2
        movaps  112(%rsp), %xmm3
        movaps  128(%rsp), %xmm4
        movaps  144(%rsp), %xmm5
        movaps  160(%rsp), %xmm6
        movaps  176(%rsp), %xmm7
        leave
        .cfi_def_cfa %rsp, 8
.endm

/* \name: jumps to the address that \function(number, second) returns. */
.macro detour name, function, second
        .type   \name, %function
\name:
        .cfi_startproc
        save
        movl    %r11d, %edi
        movq    \second, %rsi
        call    \function
        movq    %rax, %r11
        restore
        jmp     *%r11
        .cfi_endproc
        .size   \name, . - \name
.endm
