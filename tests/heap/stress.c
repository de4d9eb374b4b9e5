/* SPDX-License-Identifier: BSD-3-Clause */
/* Eight threads that allocate, free, fork, exec, spawn and end at the same time. Contents stay,
 * children have their own heaps, and every process ends: none waits for a lock that another thread
 * held during fork(). */
#include <pthread.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap.h"

enum { THREADS = 8, BLOCKS = 24 };
extern char** environ;
static int rounds = 150;
/* Blocks that any thread may take and free. */
static char* passed[THREADS];

struct dice {
  uint64_t state;
};

static uint64_t throw(struct dice * dice) {
  dice->state = dice->state * 6364136223846793005ULL + 1442695040888963407ULL;
  return dice->state >> 33;
}

static char* filled(size_t bytes, int value) {
  char* block = malloc(bytes);
  EXPECT(block != NULL);
  for (size_t i = 0; i < bytes; i += 4096) block[i] = (char)value;
  block[bytes - 1] = (char)value;
  return block;
}

static void expect_filled(const char* block, size_t bytes, int value) {
  for (size_t i = 0; i < bytes; i += 4096) EXPECT(block[i] == (char)value);
  EXPECT(block[bytes - 1] == (char)value);
}

static int ended_well(pid_t pid) {
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void fork_and_look(char* block, size_t bytes, int value) {
  const pid_t pid = fork();
  EXPECT(pid >= 0);
  if (pid == 0) {
    expect_filled(block, bytes, value);
    memset(block, 99, bytes);
    free(filled(300000, 5));
    free(block);
    _exit(0);
  }
  expect_filled(block, bytes, value);
  for (size_t i = 0; i < bytes; i += 4096) block[i] = (char)value;
  EXPECT(ended_well(pid));
  expect_filled(block, bytes, value);
}

static void run_true(int how) {
  char* const arguments[] = {"true", NULL};
  pid_t pid = 0;
  if (how == 0) {
    EXPECT(posix_spawnp(&pid, "true", NULL, NULL, arguments, environ) == 0);
  } else if (how == 1) {
    pid = vfork();
    if (pid == 0) {
      execvp("true", arguments);
      _exit(1);
    }
  } else {
    EXPECT(system("true") == 0);
    return;
  }
  EXPECT(ended_well(pid));
}

static void* play(void* number) {
  const int me = (int)(intptr_t)number;
  struct dice dice = {(uint64_t)me * 977 + 1};
  char* blocks[BLOCKS] = {0};
  size_t bytes[BLOCKS] = {0};
  for (int round = 0; round < rounds; ++round) {
    const int i = (int)(throw(&dice) % BLOCKS);
    if (blocks[i] != NULL) expect_filled(blocks[i], bytes[i], i + me);
    switch (throw(&dice) % 12) {
      case 0:
        if (blocks[i] != NULL) fork_and_look(blocks[i], bytes[i], i + me);
        break;
      case 1:
        run_true((int)(throw(&dice) % 3));
        break;
      case 2:
        free(__atomic_exchange_n(&passed[throw(&dice) % THREADS], filled(400000, 1),
                                 __ATOMIC_ACQ_REL));
        break;
      case 3:
      case 4:
        if (blocks[i] == NULL) break;
        bytes[i] = throw(&dice) % 3000000 + 1;
        blocks[i] = realloc(blocks[i], bytes[i]);
        EXPECT(blocks[i] != NULL);
        for (size_t at = 0; at < bytes[i]; at += 4096) blocks[i][at] = (char)(i + me);
        blocks[i][bytes[i] - 1] = (char)(i + me);
        break;
      default:
        free(blocks[i]);
        bytes[i] = throw(&dice) % 1500000 + 1;
        blocks[i] = filled(bytes[i], i + me);
    }
  }
  for (int i = 0; i < BLOCKS; ++i) free(blocks[i]);
  return NULL;
}

/* A thread that still allocates while the process ends. */
static void* go_on(void* unused) {
  for (;;) free(filled(200000, 3));
  return unused;
}

int main(int count, char** arguments) {
  if (count > 1) rounds = atoi(arguments[1]);
  alarm(100);
  tell();
  fflush(stdout);
  pthread_t threads[THREADS];
  pthread_t endless;
  for (intptr_t i = 0; i < THREADS; ++i)
    EXPECT(pthread_create(&threads[i], NULL, play, (void*)i) == 0);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  EXPECT(pthread_create(&endless, NULL, go_on, NULL) == 0);
  puts("right");
  return 0;
}
