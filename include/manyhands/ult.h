/* SPDX-License-Identifier: BSD-3-Clause */
/* Light tasks for C. What the words mean, and what each call promises, stands in manyhands/ult.hpp
 * and the headers it names; the functions here are the same ones. A task's function must not be
 * left by longjmp or by an exception of another language; one that is left by a C++ exception gives
 * MH_ULT_THREW to its joiner. */
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
  MH_ULT_THREW = 4   /* the task ended by a C++ exception */
};

typedef struct mh_ult_scheduler mh_ult_scheduler;
typedef struct mh_ult_task mh_ult_task;
typedef void mh_ult_function(void* argument);

/* Zero in any field stands for its default (mh::ult::Config). */
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

/* Outputs are written on success only. `config` may be NULL. */
MH_ULT_EXPORT int mh_ult_start(const mh_ult_config* config, mh_ult_scheduler** scheduler);
MH_ULT_EXPORT void mh_ult_finish(mh_ult_scheduler* scheduler);
MH_ULT_EXPORT unsigned mh_ult_workers(const mh_ult_scheduler* scheduler);

/* Runs a task from an ordinary thread and sleeps until it has ended. */
MH_ULT_EXPORT int mh_ult_run(mh_ult_scheduler* scheduler, mh_ult_function* function,
                             void* argument);

/* From a task, on its worker; or from any thread on a given worker (MH_ULT_ANY: on each in turn).
 */
#define MH_ULT_ANY (~0U)
MH_ULT_EXPORT int mh_ult_spawn(mh_ult_function* function, void* argument, mh_ult_task** task);
MH_ULT_EXPORT int mh_ult_spawn_on(mh_ult_scheduler* scheduler, unsigned worker,
                                  mh_ult_function* function, void* argument, mh_ult_task** task);
/* Each task is joined or detached once; its handle ends with that. */
MH_ULT_EXPORT int mh_ult_join(mh_ult_task* task);
MH_ULT_EXPORT void mh_ult_detach(mh_ult_task* task);

MH_ULT_EXPORT void mh_ult_yield(void);
/* Returns after a signal, at once if one is kept, and sometimes without: call it in a loop. */
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
MH_ULT_EXPORT int mh_ult_barrier_wait(mh_ult_barrier* barrier); /* 1 for one of them, else 0 */

/* A variable that each task has for itself; `destroy` (or NULL) is called when the task ends. */
MH_ULT_EXPORT int mh_ult_key_create(void (*destroy)(void*), int* key);
MH_ULT_EXPORT int mh_ult_set_local(int key, void* value); /* task only */
MH_ULT_EXPORT void* mh_ult_get_local(int key);

#ifdef __cplusplus
}
#endif

#endif
