// SPDX-License-Identifier: BSD-3-Clause
// Makes the kernel refuse calls of this process: process_vm_readv and process_vm_writev with EPERM,
// as container runtimes do; new threads with EAGAIN, as limits on processes do. The kernel can also
// refuse sched_setaffinity, by which a thread moves to another core, with EINVAL, as cpusets do. A
// seccomp filter cannot be removed, and execve inherits it.
#ifndef MH_TESTS_MPI_REFUSAL_H
#define MH_TESTS_MPI_REFUSAL_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// From now on the system calls `one` and `other` fail with errno `error`. Returns 0 on success.
// SECCOMP_FILTER_FLAG_TSYNC applies the filter to all threads, helpers included.
static inline int refuse(int one, int other, int error) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)one, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)other, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static inline int refuse_remote_copies(void) {
  return refuse(SYS_process_vm_readv, SYS_process_vm_writev, EPERM);
}
static inline int refuse_threads(void) { return refuse(SYS_clone, SYS_clone3, EAGAIN); }
static inline int refuse_other_cores(void) {
  return refuse(SYS_sched_setaffinity, SYS_sched_setaffinity, EINVAL);
}

static inline int remote_copies_are_refused(void) {
  char from[8] = {0}, to[8];
  struct iovec local = {to, sizeof to}, remote = {from, sizeof from};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) < 0 && errno == EPERM;
}

#endif
