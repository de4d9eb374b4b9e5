// SPDX-License-Identifier: BSD-3-Clause
// System calls and constants that the files of this directory share, definitions that older C
// libraries lack, and the addresses of the heap's mappings.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "heap/calls.hpp"

namespace mh::heap {

#ifdef MADV_COLLAPSE
inline constexpr int kMadvCollapse = MADV_COLLAPSE;
#else
inline constexpr int kMadvCollapse = 25;             // Linux 6.1
#endif
#ifdef MAP_FIXED_NOREPLACE
inline constexpr int kMapFixedNoReplace = MAP_FIXED_NOREPLACE;
#else
inline constexpr int kMapFixedNoReplace = 0x100000;  // Linux 4.17; older kernels take it as a hint
#endif

// Seals of every heap file: nobody can change its size, so a mapped byte stays valid.
inline constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

inline void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }
inline std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

inline std::uint64_t random_bits() {
  std::uint64_t random = 0;
  const bool known = call::getrandom(&random, sizeof random, GRND_NONBLOCK) == sizeof random;
  return known ? random : static_cast<std::uint64_t>(::getpid());
}

// Maps a part of a file at this address, shared. False if the range is in use or outside the
// address space.
inline bool map_at(std::uint64_t address, std::size_t bytes, int protection, int fd,
                   std::uint64_t offset) {
  void* got = ::mmap(pointer(address), bytes, protection, MAP_SHARED | kMapFixedNoReplace, fd,
                     static_cast<off_t>(offset));
  if (got == pointer(address)) return true;
  if (got != MAP_FAILED) ::munmap(got, bytes);
  return false;
}

// Restores errno at the end of a scope, because system calls of the heap must not change the
// program's errno.
class KeepErrno {
 public:
  KeepErrno() = default;
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;
  ~KeepErrno() { errno = kept_; }

 private:
  int kept_ = errno;
};

// Blocks all signals of this thread for a scope, for steps that must not be interrupted.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &mask_);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr); }

 private:
  sigset_t mask_;
};

// The addresses of heaps and their views, far from all that the kernel chooses: programs and brk
// lie near 0 or from 85 TB on, stacks and mappings just below 128 TB. This process's heap begins at
// a multiple of 1 GB. The views of other ranks' heaps lie behind the highest address to which this
// heap may grow.
struct AddressPlan {
  std::uint64_t first_base;
  std::uint64_t bases;  // in steps of 1 GB
  std::uint64_t first_view;
  std::uint64_t views;  // bytes
};
#if defined(__SANITIZE_THREAD__)
#define MH_HEAP_UNDER_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MH_HEAP_UNDER_TSAN
#endif
#endif
#ifdef MH_HEAP_UNDER_TSAN  // ThreadSanitizer knows a few ranges only
inline constexpr AddressPlan kPlan{0x7e80'0000'0000, 64, 0x7ea0'0000'0000, 512ULL << 30U};
#else
inline constexpr AddressPlan kPlan{24ULL << 40U, 4096, 32ULL << 40U, 48ULL << 40U};
#endif

}  // namespace mh::heap
