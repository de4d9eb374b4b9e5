/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface between libmanyhands.so and a task library while a rank waits. The two libraries
 * meet at run time only: the task library looks up __mh_idle_work, and works without it.
 *
 *   help    a thread without a task does for other ranks what any waiting rank does
 *   offer   a thread that waits in an MPI call runs tasks of its own meanwhile
 *
 * The functions stay valid until the process ends, even if libmanyhands.so is unloaded. Each acts
 * on the calling thread. Only threads that may make MPI calls may call them, because help() makes
 * MPI calls. No function throws, and the functions of `mh_offer` must not throw. */
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
  int (*has)(void* of);  /* called between two polls of a wait; 0: no task is ready */
  void (*run)(void* of); /* runs at most one task, which may make (blocking) MPI calls */
  void* of;
};

struct mh_idle_work {
  /* A bounded step of a wait, as between two polls of an MPI call. Returns 1 if a step was done;
   * after 0 the caller should yield its core. The first call begins a wait, whose first
   * microseconds do nothing for other ranks. */
  int (*help)(void);
  /* Ends the wait that help() began, if any. */
  void (*end_help)(void);
  /* Replaces the tasks that this thread offers and returns the previous offer; all zero: none.
   * Ignored unless MH_TASKS_IN_WAIT=1. */
  struct mh_offer (*offer)(struct mh_offer);
};

typedef const struct mh_idle_work* mh_idle_work_function(uint32_t version);

/* Returns NULL if the version differs, this process does not help, or it has made no MPI call yet.
 */
const struct mh_idle_work* __mh_idle_work(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
