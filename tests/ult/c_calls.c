/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes every call of manyhands/ult.h. Prints the first expectation that fails, or "all good". */
#include <manyhands/ult.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                        \
  do {                                                           \
    if (!(condition)) {                                          \
      printf("%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

static mh_ult_scheduler* scheduler;
static mh_ult_mutex* mutex;
static mh_ult_barrier* barrier;
static int key;
static int counted;
static atomic_int destroyed, last, message;
static _Atomic(mh_ult_task*) receiver;

static void destroy(void* value) {
  free(value);
  atomic_fetch_add(&destroyed, 1);
}

static void count(void* argument) {
  int* mine = malloc(sizeof *mine);
  *mine = *(int*)argument;
  EXPECT(mh_ult_set_local(key, mine) == MH_ULT_OK);
  mh_ult_mutex_lock(mutex);
  ++counted;
  mh_ult_yield();
  mh_ult_mutex_unlock(mutex);
  atomic_fetch_add(&last, mh_ult_barrier_wait(barrier));
  EXPECT(*(int*)mh_ult_get_local(key) == *(int*)argument);
}

static void receive(void* argument) {
  (void)argument;
  atomic_store(&receiver, mh_ult_self());
  while (atomic_load(&message) == 0) mh_ult_wait();
}

static void send(void* argument) {
  (void)argument;
  while (atomic_load(&receiver) == NULL) mh_ult_yield();
  atomic_store(&message, 1);
  mh_ult_signal(atomic_load(&receiver));
}

static void everything(void* argument) {
  mh_ult_task* tasks[12];
  int numbers[10];
  for (int i = 0; i < 10; ++i) {
    numbers[i] = i;
    EXPECT(mh_ult_spawn(count, &numbers[i], &tasks[i]) == MH_ULT_OK);
  }
  EXPECT(mh_ult_spawn(receive, NULL, &tasks[10]) == MH_ULT_OK);
  EXPECT(mh_ult_spawn_on(scheduler, 1, send, NULL, &tasks[11]) == MH_ULT_OK);
  for (int i = 0; i < 12; ++i) EXPECT(mh_ult_join(tasks[i]) == MH_ULT_OK);
  EXPECT(mh_ult_self() != NULL && mh_ult_this_worker() < 2);
  EXPECT(mh_ult_run(scheduler, send, NULL) == MH_ULT_MISUSE);
  *(int*)argument = 1;
}

int main(void) {
  int done = 0;
  mh_ult_task* task = NULL;
  mh_ult_config config = {.workers = 2, .tasks_per_worker = 512, .name = "c"};
  mh_ult_config wrong = {.tasks_per_worker = 1};
  EXPECT(mh_ult_start(&wrong, &scheduler) == MH_ULT_MISUSE);
  EXPECT(mh_ult_start(&config, &scheduler) == MH_ULT_OK);
  EXPECT(mh_ult_workers(scheduler) == 2);
  EXPECT(mh_ult_mutex_create(&mutex) == MH_ULT_OK);
  EXPECT(mh_ult_barrier_create(0, &barrier) == MH_ULT_MISUSE);
  EXPECT(mh_ult_barrier_create(10, &barrier) == MH_ULT_OK);
  EXPECT(mh_ult_key_create(destroy, &key) == MH_ULT_OK);
  EXPECT(mh_ult_run(scheduler, everything, &done) == MH_ULT_OK && done == 1);
  EXPECT(counted == 10 && destroyed == 10 && last == 1);
  EXPECT(mh_ult_spawn(send, NULL, &task) == MH_ULT_MISUSE);
  EXPECT(mh_ult_spawn_on(scheduler, 2, send, NULL, &task) == MH_ULT_MISUSE);
  EXPECT(mh_ult_spawn_on(scheduler, MH_ULT_ANY, send, NULL, &task) == MH_ULT_OK);
  mh_ult_detach(task);
  EXPECT(mh_ult_self() == NULL && mh_ult_set_local(key, NULL) == MH_ULT_MISUSE);
  mh_ult_finish(scheduler);
  mh_ult_barrier_destroy(barrier);
  mh_ult_mutex_destroy(mutex);
  puts("all good");
  return 0;
}
