// SPDX-License-Identifier: BSD-3-Clause
// System calls that are not cancellation points.
//
// A function such as open() of the C library ends the calling thread if pthread_cancel() was called
// for it. malloc(), free(), fork() and madvise() may not do so. The ended thread would keep the
// heap's lock. The files of libmanyhands-heap.so therefore call the kernel directly. Each function
// takes and returns the same as the C library's function of its name, and sets errno alike.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>

namespace mh::heap::call {

inline int open(const char* path, int flags) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, 0));
}
inline int close(int fd) { return static_cast<int>(::syscall(SYS_close, fd)); }
inline ssize_t read(int fd, void* to, std::size_t bytes) {
  return ::syscall(SYS_read, fd, to, bytes);
}
inline ssize_t write(int fd, const void* from, std::size_t bytes) {
  return ::syscall(SYS_write, fd, from, bytes);
}
inline ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) {
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}
inline ssize_t pwrite(int fd, const void* from, std::size_t bytes, off_t offset) {
  return ::syscall(SYS_pwrite64, fd, from, bytes, offset);
}
inline int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, bytes));
}
inline ssize_t getrandom(void* to, std::size_t bytes, unsigned flags) {
  return ::syscall(SYS_getrandom, to, bytes, flags);
}

}  // namespace mh::heap::call
