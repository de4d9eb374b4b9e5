/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of glibc that are newer than 2.27, for the libraries of the wheel.
 *
 * Our code, libstdc++ or libgcc calls these functions. They are linked into each library with
 * hidden visibility: no other library sees them. Linux on x86-64, whose `struct stat` is the
 * kernel's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int __cxa_atexit(void (*function)(void*), void* data, void* library);

#pragma GCC visibility push(hidden)

/* False: libstdc++ counts references by atomic instructions, as in a program with threads. */
char __libc_single_threaded = 0;

int fstat(int file, struct stat* status) { return (int)syscall(SYS_fstat, file, status); }
int fstat64(int file, struct stat64* status) { return (int)syscall(SYS_fstat, file, status); }
int stat(const char* path, struct stat* status) { return (int)syscall(SYS_stat, path, status); }
int fstatat(int at, const char* restrict path, struct stat* restrict status, int flags) {
  return (int)syscall(SYS_newfstatat, at, path, status, flags);
}

/* Replaces atexit() of libc_nonshared.a: -nodefaultlibs keeps that archive out of these libraries.
 */
extern void* __dso_handle;
static void call(void* function) { ((void (*)(void))function)(); }
int atexit(void (*function)(void)) { return __cxa_atexit(call, (void*)function, __dso_handle); }

pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

/* For std::random_device. On a kernel without getrandom (before 3.17) the value is a hash of the
 * time. */
uint32_t arc4random(void) {
  uint32_t value = 0;
  if (syscall(SYS_getrandom, &value, sizeof value, 0) == (long)sizeof value) return value;
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint32_t)now.tv_nsec * 2654435761U ^ (uint32_t)now.tv_sec;
}

/* Converts `until`, a time of `clock`, into a time of CLOCK_REALTIME, and waits until then. */
int pthread_mutex_clocklock(pthread_mutex_t* restrict mutex, clockid_t clock,
                            const struct timespec* restrict until) {
  const int64_t second = 1000000000;
  struct timespec from = {0, 0};
  struct timespec now = {0, 0};
  if (clock_gettime(clock, &from) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return EINVAL;
  const int64_t left = (until->tv_sec - from.tv_sec) * second + (until->tv_nsec - from.tv_nsec);
  const int64_t at = now.tv_nsec + (left > 0 ? left : 0);
  const struct timespec moment = {now.tv_sec + at / second, at % second};
  return pthread_mutex_timedlock(mutex, &moment);
}

/* The search of _dl_find_object() for the object that holds a code address. The unwinder of libgcc
 * asks for that object's table of frames. */
struct search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int look_into(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  struct search* search = data;
  uintptr_t low = UINTPTR_MAX;
  uintptr_t high = 0;
  const ElfW(Phdr)* frames = NULL;
  int holds = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) frames = part;
    if (part->p_type != PT_LOAD) continue;
    if (start < low) low = start;
    if (start + part->p_memsz > high) high = start + part->p_memsz;
    holds |= search->address >= start && search->address < start + part->p_memsz;
  }
  if (!holds) return 0;
  if (frames == NULL) return -1;
  search->found->dlfo_flags = 0;
  search->found->dlfo_map_start = (void*)low;
  search->found->dlfo_map_end = (void*)high;
  search->found->dlfo_link_map = NULL;
  search->found->dlfo_eh_frame = (void*)(info->dlpi_addr + frames->p_vaddr);
  return 1;
}

int _dl_find_object(void* address, struct dl_find_object* result) {
  struct search search = {(uintptr_t)address, result};
  return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}

#pragma GCC visibility pop
