/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the preloaded heap (libmanyhands-heap.so) and the rest of Manyhands in the same process.
 */
#ifndef MH_HEAP_DOOR_H
#define MH_HEAP_DOOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MH_HEAP_DOOR_LAYOUT 1

struct mh_heap_stats {
  uint64_t used;     /* bytes that the program has asked for and not freed */
  uint64_t peak;     /* ... at most */
  uint64_t waste;    /* bytes of used extents that nobody asked for */
  uint64_t kept;     /* bytes of freed blocks kept for the next */
  uint64_t mapped;   /* address space */
  uint64_t resident; /* memory, kept and static included */
  uint64_t blocks;   /* allocations served so far */
  uint64_t returned; /* bytes given back to the system so far */
  uint64_t statics;  /* bytes of static memory moved in */
};

/* All functions: any thread, no exception. */
struct mh_heap_door {
  uint32_t layout; /* MH_HEAP_DOOR_LAYOUT */
  uint32_t bytes;  /* of this structure */
  /* The heap's file, which stays the heap's; it is made if there is none. -1: no heap (see why). */
  int (*descriptor)(void);
  /* Whether all of [address, address + bytes) lies in the file now, where its offset is its
   * address. Some nanoseconds. */
  int (*reaches)(uint64_t address, uint64_t bytes);
  /* Lets up to `chunks` touched ranges of 2 MB become huge pages, where private memory would have
   * had them; for a process that waits. 0: nothing to do for now. */
  int (*improve)(unsigned chunks);
  void (*stats)(struct mh_heap_stats* stats);
  /* "large allocations are shared", or why there is no heap. */
  const char* (*why)(void);
};

/* Exported by libmanyhands-heap.so. */
const struct mh_heap_door* mh_heap_open_door(void);
typedef const struct mh_heap_door* mh_heap_open_door_function(void);

/* What MH_HEAP=`mode` would come to in this process, without starting anything: 1 and the words
 * that mh_heap_door.why has; 0: it would be off. */
int mh_heap_explain(const char* mode, const char** why);

#ifdef __cplusplus
}
#endif

#endif
