/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface between the preloaded heap (libmanyhands-heap.so) and the rest of Manyhands in the
 * same process. */
#ifndef MH_HEAP_DOOR_H
#define MH_HEAP_DOOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MH_HEAP_DOOR_LAYOUT 3

struct mh_heap_stats {
  uint64_t used;     /* bytes of pages of blocks that the program has, or that are cached */
  uint64_t peak;     /* highest value of `used` */
  uint64_t kept;     /* bytes of freed blocks kept for reuse */
  uint64_t mapped;   /* bytes of address space */
  uint64_t resident; /* bytes of memory, kept and static memory included */
  uint64_t blocks;   /* allocations served so far, except from the cache */
  uint64_t returned; /* bytes given back to the system so far */
  uint64_t statics;  /* bytes of static memory moved in */
};

/* Every function may be called by any thread and throws nothing. */
struct mh_heap_door {
  uint32_t layout; /* MH_HEAP_DOOR_LAYOUT */
  uint32_t bytes;  /* of this structure */
  /* Returns the heap's file descriptor, which the heap keeps; makes the file if there is none.
   * Returns -1 if there is no heap (see why). */
  int (*descriptor)(void);
  /* Whether all of [address, address + bytes) lies in the file now, at offsets equal to its
   * addresses. Takes some nanoseconds. */
  int (*reaches)(uint64_t address, uint64_t bytes);
  void (*stats)(struct mh_heap_stats* stats);
  /* "large allocations are shared", or why there is no heap. Starts the heap if it has not started.
   */
  const char* (*why)(void);
  /* Called when no other rank will map the heap: under MH_HEAP=auto the heap takes no fresh memory
   * from now on. Blocks of the heap stay valid. */
  void (*stop_growing)(void);
};

/* Exported by libmanyhands-heap.so. */
const struct mh_heap_door* mh_heap_open_door(void);
typedef const struct mh_heap_door* mh_heap_open_door_function(void);

/* Judges what MH_HEAP=`mode` would do on this machine, under the limits of this process; starts
 * nothing. Returns 1 if the heap would be on, else 0; `why` gets the text of mh_heap_door.why. */
int mh_heap_explain(const char* mode, const char** why);

#ifdef __cplusplus
}
#endif

#endif
