/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of the preloaded heap, and expectations, for the programs of tests/heap. */
#ifndef MH_TESTS_HEAP_H
#define MH_TESTS_HEAP_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "heap/door.h"

static const struct mh_heap_door* door(void) {
  mh_heap_open_door_function* open =
      (mh_heap_open_door_function*)dlsym(RTLD_DEFAULT, "mh_heap_open_door");
  return open != NULL ? open() : NULL;
}

/* Returns whether the heap says that the other ranks of the node can map these bytes. */
static inline int shared(const void* address, size_t bytes) {
  return door() != NULL && door()->reaches((uintptr_t)address, bytes);
}

/* Prints "heap: " and the state of the heap; without the library "heap: not here". */
static inline void tell(void) { printf("heap: %s\n", door() != NULL ? door()->why() : "not here"); }

#define EXPECT(what)                                                 \
  do {                                                               \
    if (!(what)) {                                                   \
      fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #what); \
      exit(1);                                                       \
    }                                                                \
  } while (0)

#endif
