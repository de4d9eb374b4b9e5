/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads with a pending cancellation call malloc, free and fork, none of which may act on it. Each
 * case names what the thread does once its cancellation is pending. */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "heap.h"

static const size_t MEGA = 1 << 20;
static int passed; /* the thread came back from all calls */

/* Allocates and frees until the heap has looked at the machine's memory again (every 250 ms). */
static void allocate(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (const time_t until = now.tv_sec + 2; now.tv_sec < until;) {
    void* block = malloc(MEGA);
    memset(block, 1, MEGA);
    free(block);
    clock_gettime(CLOCK_MONOTONIC, &now);
  }
}

/* Forks with memory in the heap, which the child copies. */
static void fork_once(void) {
  char* block = malloc(MEGA);
  memset(block, 1, MEGA);
  const pid_t pid = fork();
  if (pid == 0) {
    memset(block, 2, MEGA);
    _exit(0);
  }
  int status = 1;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); /* waitpid may act on it */
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  for (size_t i = 0; i < MEGA; ++i) EXPECT(block[i] == 1);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  free(block);
}

/* Gives a thread's stack, which lies in the heap. */
static void set_stack(void) {
  char* stack = aligned_alloc(4096, MEGA);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  EXPECT(pthread_attr_setstack(&attributes, stack, MEGA) == 0);
  pthread_attr_destroy(&attributes);
  free(stack);
}

static void* cancelled(void* run) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cancel(pthread_self());
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  (*(void (**)(void))run)();
  passed = 1;
  pthread_testcancel();
  return NULL;
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  void (*run)(void) = strcmp(arguments[1], "malloc") == 0 ? allocate
                      : strcmp(arguments[1], "fork") == 0 ? fork_once
                                                          : set_stack;
  free(malloc(MEGA));
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, cancelled, &run) == 0);
  void* result = NULL;
  EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && passed == 1);
  alarm(20); /* a lock that the thread has kept */
  free(malloc(MEGA));
  puts("right");
  return 0;
}
