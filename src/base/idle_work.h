/* SPDX-License-Identifier: BSD-3-Clause */
/* What libmanyhands.so and a library of tasks do for each other while a rank waits. They know each
 * other at run time alone: the task library looks for __mh_idle_work, and works without it as well.
 *
 *   help    a thread that has no task does what any waiting rank does for others
 *   offer   a thread that waits in an MPI call runs tasks of its own meanwhile
 *
 * Valid until the process ends, also where libmanyhands.so is unloaded. Every function concerns the
 * thread that calls it and may be called by any, MPI permitting: help() makes MPI calls. No
 * function throws, those in `mh_offer` included. */
#ifndef MH_BASE_IDLE_WORK_H
#define MH_BASE_IDLE_WORK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MH_IDLE_WORK_VERSION 1u /* changes with any structure or meaning in this file */
#define MH_IDLE_WORK_NAME "__mh_idle_work"

/* Tasks that this thread may run while it waits in an MPI call of the program. */
struct mh_offer {
  int (*has)(void* of);  /* asked between two looks of a wait; 0: there is nothing to run now */
  void (*run)(void* of); /* at most one task. It may make MPI calls, which may wait */
  void* of;
};

struct mh_idle_work {
  /* One bounded step of a wait, as between two looks of an MPI call. 1: something was moved or
   * done; 0: nothing, the caller should leave its core for a moment. The first call begins a wait,
   * in which nothing is done for others for the first microseconds. */
  int (*help)(void);
  /* The wait that help() has begun is over. Nothing if there is none. */
  void (*end_help)(void);
  /* Offers tasks in place of what this thread has offered before, which is returned; all zero:
   * none. Without MH_TASKS_IN_WAIT=1 nothing comes of it. */
  struct mh_offer (*offer)(struct mh_offer);
};

typedef const struct mh_idle_work* mh_idle_work_function(uint32_t version);

/* NULL: this is another version, or nobody helps in this process, or it has made no MPI call yet.
 */
const struct mh_idle_work* __mh_idle_work(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
