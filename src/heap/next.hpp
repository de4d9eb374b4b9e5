// SPDX-License-Identifier: BSD-3-Clause
// What is behind us: each function of the malloc family, and of the others that we export, as the
// next object in the loader's order defines it, which is what RTLD_NEXT means.
//
// Found by reading symbol tables in memory (base/elf.h), not by dlsym(), which may allocate: we are
// asked for memory before anything else has run.
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

// The C library has all of them but what says otherwise, and every program has the C library.
void find_next(Next& next);
// Whether the loader binds malloc to us and the next is the C library's; whether a checker is here.
void look_around(Facts& facts);

}  // namespace mh::heap
