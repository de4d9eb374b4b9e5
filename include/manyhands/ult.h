/* SPDX-License-Identifier: BSD-3-Clause */
/* Light tasks for C. These functions are the C++ functions of manyhands/ult.hpp and the headers
 * that it names. Those headers explain the terms and specify each call. A task's function must not
 * end by longjmp or by an exception of another language. If a C++ exception leaves the function,
 * the joiner gets MH_ULT_THREW. */
#ifndef MANYHANDS_ULT_H
#define MANYHANDS_ULT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MH_ULT_EXPORT __attribute__((visibility("default")))

enum {
  MH_ULT_OK = 0,
  MH_ULT_FULL = 1,   /* no slot, memory, thread or stack now; the same call may succeed later */
  MH_ULT_MISUSE = 2, /* the call is not allowed here or with these arguments */
  MH_ULT_SYSTEM = 3, /* the operating system refused */
  MH_ULT_THREW = 4   /* a C++ exception left the task's function */
};

typedef struct mh_ult_scheduler mh_ult_scheduler;
typedef struct mh_ult_task mh_ult_task;
typedef void mh_ult_function(void* argument);

/* A zero field has its default value (mh::ult::Config). */
typedef struct mh_ult_config {
  unsigned workers;
  uint32_t tasks_per_worker;
  size_t stack_bytes;
  unsigned no_guard_pages;
  unsigned breadth_first;
  unsigned no_stealing;
  unsigned no_inline_joins;
  unsigned bind;
  const char* name;
} mh_ult_config;

/* The functions write their outputs on success only. `config` may be NULL: all defaults. */
MH_ULT_EXPORT int mh_ult_start(const mh_ult_config* config, mh_ult_scheduler** scheduler);
MH_ULT_EXPORT void mh_ult_finish(mh_ult_scheduler* scheduler);
MH_ULT_EXPORT unsigned mh_ult_workers(const mh_ult_scheduler* scheduler);

/* Ordinary threads only. Runs a task; the calling thread sleeps until the task has ended. */
MH_ULT_EXPORT int mh_ult_run(mh_ult_scheduler* scheduler, mh_ult_function* function,
                             void* argument);

/* mh_ult_spawn() is for tasks only and starts a task on the caller's worker. Any thread may call
 * mh_ult_spawn_on(), which starts a task on the given worker. MH_ULT_ANY: the scheduler takes its
 * workers in turn. */
#define MH_ULT_ANY (~0U)
MH_ULT_EXPORT int mh_ult_spawn(mh_ult_function* function, void* argument, mh_ult_task** task);
MH_ULT_EXPORT int mh_ult_spawn_on(mh_ult_scheduler* scheduler, unsigned worker,
                                  mh_ult_function* function, void* argument, mh_ult_task** task);
/* Join or detach each task once; the handle is invalid afterwards. */
MH_ULT_EXPORT int mh_ult_join(mh_ult_task* task);
MH_ULT_EXPORT void mh_ult_detach(mh_ult_task* task);

MH_ULT_EXPORT void mh_ult_yield(void);
/* Task only. Waits for a signal; returns at once if the task already has a signal. The function may
 * also return without a signal, so call it in a loop. */
MH_ULT_EXPORT void mh_ult_wait(void);
MH_ULT_EXPORT void mh_ult_signal(mh_ult_task* task);
MH_ULT_EXPORT mh_ult_task* mh_ult_self(void); /* NULL on an ordinary thread */
MH_ULT_EXPORT unsigned mh_ult_this_worker(void);

typedef struct mh_ult_mutex mh_ult_mutex;
MH_ULT_EXPORT int mh_ult_mutex_create(mh_ult_mutex** mutex);
MH_ULT_EXPORT void mh_ult_mutex_destroy(mh_ult_mutex* mutex);
MH_ULT_EXPORT void mh_ult_mutex_lock(mh_ult_mutex* mutex);
MH_ULT_EXPORT void mh_ult_mutex_unlock(mh_ult_mutex* mutex);

typedef struct mh_ult_barrier mh_ult_barrier;
MH_ULT_EXPORT int mh_ult_barrier_create(uint32_t count, mh_ult_barrier** barrier);
MH_ULT_EXPORT void mh_ult_barrier_destroy(mh_ult_barrier* barrier);
MH_ULT_EXPORT int mh_ult_barrier_wait(mh_ult_barrier* barrier); /* 1 to the last caller, else 0 */

/* A variable with a separate value in each task. The library calls `destroy` (if not NULL) on the
 * value when the task ends. */
MH_ULT_EXPORT int mh_ult_key_create(void (*destroy)(void*), int* key);
MH_ULT_EXPORT int mh_ult_set_local(int key, void* value); /* task only */
MH_ULT_EXPORT void* mh_ult_get_local(int key);

#ifdef __cplusplus
}
#endif

#endif
