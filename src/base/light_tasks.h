/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface between libmanyhands.so and the light tasks (libs/ult) of the same process. The two
 * meet at run time only: libmanyhands.so looks up __mh_light_tasks in MPI_Init_thread, and works
 * without it.
 *
 *   park     a light task that waits in an MPI call sleeps, and its worker runs other tasks
 *   poll     a worker without a ready task tests the conditions of all parked tasks
 *
 * The functions stay valid until the process ends. None of them throws. */
#ifndef MH_BASE_LIGHT_TASKS_H
#define MH_BASE_LIGHT_TASKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MH_LIGHT_TASKS_VERSION 1u /* changes with any structure or meaning in this file */
#define MH_LIGHT_TASKS_NAME "__mh_light_tasks"

enum mh_poll {
  MH_POLL_NOTHING = 0,  /* no wait is over */
  MH_POLL_FOUND = 1,    /* a wait is over: its task is ready */
  MH_POLL_ELSEWHERE = 2 /* another worker polls now */
};

/* Functions of libmanyhands.so, for the workers of light tasks. */
struct mh_parked_waits {
  /* Tests the conditions of all parked tasks and wakes those whose waits are over. Never blocks.
   * `idle_among`: the number of awake workers of the caller's scheduler, if the caller is on its
   * own stack and has no ready task. A fruitless poll then also does a step for other ranks, or
   * backs off. After an answer other than MH_POLL_ELSEWHERE, the idle worker stays the poller until
   * it calls end_idle(). 0: the caller has other tasks to run, and the poll may be skipped. */
  enum mh_poll (*poll)(unsigned idle_among);
  void (*end_idle)(void);
};

/* Functions of the light tasks, for libmanyhands.so. */
struct mh_light_tasks {
  void* (*current)(void); /* the calling task; NULL on an ordinary thread */
  /* Suspends the calling task until (*is_over)(of) is not 0. Tests it first and after each wake().
   */
  void (*park)(int (*is_over)(void* of), void* of);
  void (*wake)(void* task); /* any thread; has no effect on a task that has ended */
  /* Limits the workers of this process to `own` cores: other processes use the rest. */
  void (*share_cores)(unsigned own);
};

/* Gives the light tasks the functions of libmanyhands.so, which they use from this call on. Returns
 * NULL if the version differs. */
typedef const struct mh_light_tasks* mh_light_tasks_function(uint32_t version,
                                                             const struct mh_parked_waits* waits);
mh_light_tasks_function __mh_light_tasks;

#ifdef __cplusplus
}
#endif

#endif
