// SPDX-License-Identifier: BSD-3-Clause
// Finds the functions behind this library (libmanyhands-heap.so), to which its own functions
// forward calls: those of the malloc family, madvise(), fork() and others. Each is found as the
// next object in the loader's order defines it (the meaning of RTLD_NEXT).
//
// find_next() reads symbol tables in memory (base/elf.h): dlsym() may allocate, and the first
// allocation comes before any other code of this library has run.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstddef>

#include "heap/conditions.hpp"

namespace mh::heap {

struct Next {
  void* (*malloc)(std::size_t);
  void (*free)(void*);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  std::size_t (*usable_size)(void*);
  int (*madvise)(void*, std::size_t, int);
  pid_t (*fork)();
  pid_t (*fork_alone)();  // _Fork, from glibc 2.34 on
  int (*register_atfork)(void (*)(), void (*)(), void (*)(), void*);
  int (*set_stack)(pthread_attr_t*, void*, std::size_t);
};

// Finds every function of Next. The C library, which every program has, defines all of them, except
// where the structure notes a version of glibc.
void find_next(Next& next);
// Checks whether the loader binds malloc to this library, with the C library's malloc as the next
// one, and whether a memory checker is loaded. Stores both answers in `facts`.
void look_around(Facts& facts);

}  // namespace mh::heap
