/* SPDX-License-Identifier: BSD-3-Clause */
/* The data that the front and a variant exchange when the variant is opened. C, read by both.
 *
 * The *front* is libmanyhands.so, the preloaded library. A *variant* has the wrappers, compiled for
 * one MPI ABI. A *layer* is the receiver of calls that a wrapper passes on: the next tool, or the
 * MPI library. The variant compares layout, sizes and the fingerprint of the table of calls with
 * its own, and refuses a front of another build. */
#ifndef MH_MPI_FRONT_TABLE_H
#define MH_MPI_FRONT_TABLE_H

#include <stdint.h>

#include "base/idle_work.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MH_FRONT_LAYOUT 6u /* changes with any structure or meaning in this file */

typedef void (*mh_function)(void);
typedef int (*mh_marker)(int schedule, long chunk, int steal_schedule, long steal_chunk);

/* Locks (`begins` is 1) or unlocks the node's lock of this name. */
typedef void (*mh_locker)(uint64_t name, int begins);

enum mh_layer {
  MH_NEXT, /* "MPI_Send" of a tool behind Manyhands in the preload list, else as MH_REAL */
  MH_REAL  /* for "MPI_Send": PMPI_Send of the library itself */
};

/* Passed from front to variant. Valid as long as the process lives. */
struct mh_chain {
  uint32_t layout;      /* MH_FRONT_LAYOUT */
  uint32_t bytes;       /* sizeof(struct mh_chain) */
  uint64_t fingerprint; /* of the names in calls.json */
  uint32_t calls;
  uint32_t guarded; /* 1: a tool is behind Manyhands */
  /* NULL if the library lacks the function. */
  mh_function (*find)(const char* name, enum mh_layer layer);
  void* (*data)(const char* name); /* an object of the library, or NULL */
  void (*publish)(void); /* sets the jump slots, after the variant has refilled the table */
};

/* Filled by the variant: for each call, a function for each of its two exported names. The front
 * itself answers calls that the library lacks. */
struct mh_table {
  uint32_t calls;       /* capacity of the three arrays */
  int unsupported;      /* error class of a call that the library lacks */
  mh_function* mpi;     /* MPI_X */
  mh_function* pmpi;    /* PMPI_X */
  mh_function* observe; /* called before the call goes on to the next layer, or NULL */
  /* The function behind __mh_ws_mark(), or NULL. Written once, release; read with acquire. */
  mh_marker mark;
  /* The function behind __mh_ws_lock() and __mh_ws_unlock(), or NULL. Release and acquire as for
   * `mark`. */
  mh_locker lock;
  /* The result of __mh_idle_work(), or NULL. Release and acquire as for `mark`. */
  const struct mh_idle_work* idle_work;
};

/* Result of mh_variant_open(). Unless it is MH_ACCEPTED, the table is undefined and the variant
 * must not be used. */
enum mh_refusal {
  MH_ACCEPTED = 0,
  MH_REFUSED_BUILD,  /* front and variant are from different builds */
  MH_REFUSED_LIBRARY /* the library lacks a function that every MPI of this ABI has */
};
int mh_variant_open(const struct mh_chain* chain, struct mh_table* table);

#ifdef __cplusplus
}
#endif
#endif
