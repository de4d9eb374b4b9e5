/* SPDX-License-Identifier: BSD-3-Clause */
/* What the front and a variant tell each other when the variant is opened. C, read by both.
 *
 * Words: the *front* is libmanyhands.so, the one preloaded library; a *variant* holds the wrappers,
 * compiled for one MPI ABI; a *layer* is where a call goes on to: the next tool, or the library.
 * Both sides compare layout, sizes and the fingerprint of the table of calls, so that a variant
 * left behind by another build is refused instead of called. */
#ifndef MH_MPI_FRONT_TABLE_H
#define MH_MPI_FRONT_TABLE_H

#include <stdint.h>

#include "base/idle_work.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MH_FRONT_LAYOUT 5u /* changes with any structure or meaning in this file */

typedef void (*mh_function)(void);
typedef int (*mh_marker)(int schedule, long chunk, int steal_schedule, long steal_chunk);

enum mh_layer {
  MH_NEXT, /* "MPI_Send": a tool behind us in the preload list, else as MH_REAL */
  MH_REAL  /* "MPI_Send": PMPI_Send of the library itself */
};

/* Front to variant. Valid as long as the process lives. */
struct mh_chain {
  uint32_t layout;      /* MH_FRONT_LAYOUT */
  uint32_t bytes;       /* sizeof(struct mh_chain) */
  uint64_t fingerprint; /* of the names in calls.json */
  uint32_t calls;
  uint32_t guarded; /* 1: a tool follows us */
  /* NULL where the library lacks it. */
  mh_function (*find)(const char* name, enum mh_layer layer);
  void* (*data)(const char* name); /* an object of the library, or NULL */
  void (*publish)(void);           /* the variant has filled the table anew */
};

/* Variant to front: one function a call for each of the two names it is exported under. The front
 * keeps its own answer for calls the library lacks. */
struct mh_table {
  uint32_t calls;       /* capacity of the three arrays */
  int unsupported;      /* error class returned for a call the library lacks */
  mh_function* mpi;     /* MPI_X */
  mh_function* pmpi;    /* PMPI_X */
  mh_function* observe; /* told of the call before it goes on to the next layer, or NULL */
  /* What __mh_ws_mark() asks, or NULL. Written once, release; read by any thread, acquire. */
  mh_marker mark;
  /* What __mh_idle_work() returns, or NULL. As `mark`. */
  const struct mh_idle_work* idle_work;
};

/* 0: the table is filled. Else the variant must not be used and `table` is of no meaning; the value
 * is one of: */
enum mh_refusal {
  MH_ACCEPTED = 0,
  MH_REFUSED_BUILD,  /* front and variant are not of one build */
  MH_REFUSED_LIBRARY /* the library lacks something every MPI of this ABI has */
};
int mh_variant_open(const struct mh_chain* chain, struct mh_table* table);

#ifdef __cplusplus
}
#endif
#endif
