/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops whose team the program changes between executions, and loops inside of regions. Rank 0 runs
 * the loops while the other ranks wait. Prints every error, and `case teams ok|WRONG`. */
#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMost = 16, kIterations = 64, kPatience = 20 };
static pid_t own[kMost];  /* threads of the team that had an iteration */
static int owned, wanted; /* threads with an iteration, and how many are required */
static long done, by_others;
static int nested_by_others;

static int is_helper(void) {
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  return strcmp(name, "mh-helper") == 0;
}

static void come(pid_t me) {
#pragma omp critical
  {
    int at = 0;
    while (at < owned && own[at] != me) ++at;
    if (at == owned && owned < kMost) own[owned++] = me;
  }
}

static void work(void) {
  __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
  for (volatile int k = 0; k < 1000; ++k) continue;
  if (is_helper()) {
    __atomic_fetch_add(&by_others, 1, __ATOMIC_RELAXED);
  } else {
    come((pid_t)syscall(SYS_gettid));
  }
  const time_t patience = time(NULL) + kPatience;
  while (__atomic_load_n(&owned, __ATOMIC_RELAXED) < wanted && time(NULL) < patience) sched_yield();
}

__attribute__((noinline)) static void loop(void) {
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < kIterations; ++i) work();
}

static int by_team_of(int threads, const char* when) {
  owned = 0;
  wanted = threads;
  done = 0;
  loop();
  if (done == kIterations && owned == threads) return 0;
  printf("%s: %ld of %d iterations, %d threads of %d\n", when, done, kIterations, owned, threads);
  return 1;
}

/* A loop inside an OpenMP region is divided by the run time, and not shared. */
__attribute__((noinline)) static void inside(int in_parallel) {
  wanted = 0;
#pragma omp parallel num_threads(2) if (in_parallel)
  {
#pragma omp barrier
    by_others = 0;
#pragma omp barrier
    loop();
#pragma omp barrier
    if (omp_get_thread_num() == 0) nested_by_others += by_others != 0;
  }
}

/* Regions with one thread, inside a shared loop: the thread that has the iteration of the outer
 * loop, perhaps a helper, does all of the inner loop. */
enum { kInner = 8 };
static unsigned char dealt[kIterations][kInner], handed[kIterations][kInner];
static int deep;

__attribute__((noinline)) static void alone_in(int i, int in_parallel) {
#pragma omp parallel for schedule(static) if (in_parallel)
  for (int k = 0; k < kInner; ++k) ++dealt[i][k];
#pragma omp parallel for schedule(dynamic, 1) num_threads(2) if (in_parallel)
  for (int k = 0; k < kInner; ++k) ++handed[i][k];
}

__attribute__((noinline)) static void loop_around(void) {
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < kIterations; ++i) {
    for (volatile int k = 0; k < 1000; ++k) continue;
    if (deep) alone_in(i, 0);
  }
}

static int around(void) {
  int wrong = 0;
  for (deep = 0; deep < 2; ++deep) {
    for (int times = 0; times < 20; ++times) {
      memset(dealt, 0, sizeof dealt);
      memset(handed, 0, sizeof handed);
      loop_around();
      for (int i = 0; i < kIterations * kInner; ++i) {
        wrong += dealt[i / kInner][i % kInner] != deep || handed[i / kInner][i % kInner] != deep;
      }
    }
  }
  if (wrong != 0) printf("regions of one thread: %d places wrong\n", wrong);
  return wrong;
}

/* Shared variables of a loop: Clang's code passes a pointer to each. */
#define FOUR(each, from) each(from##0) each(from##1) each(from##2) each(from##3)
#define SIXTEEN(each, from) \
  FOUR(each, from##0) FOUR(each, from##1) FOUR(each, from##2) FOUR(each, from##3)
#define SIXTY_FOUR(each, from) \
  SIXTEEN(each, from##0) SIXTEEN(each, from##1) SIXTEEN(each, from##2) SIXTEEN(each, from##3)
#define DECLARE(name) long name = 0;
#define COUNT(name) __atomic_fetch_add(&name, i, __ATOMIC_RELAXED);
#define COMPARE(name) wrong += name != (long)kIterations * (kIterations - 1) / 2;

#define LOOP_OVER(name, variables)                                                               \
  __attribute__((noinline)) static int name(void) {                                              \
    int wrong = 0;                                                                               \
    variables(DECLARE)                                                                           \
        _Pragma("omp parallel for schedule(dynamic, 1)") for (int i = 0; i < kIterations; ++i) { \
      variables(COUNT) for (volatile int k = 0; k < 1000; ++k) continue;                         \
    }                                                                                            \
    variables(COMPARE) return wrong;                                                             \
  }
#define THREE_OF_THEM(each) each(a) each(b) each(c)
#define FOUR_OF_THEM(each) FOUR(each, v)
#define FIVE_OF_THEM(each) FOUR(each, v) each(w)
#define MANY_OF_THEM(each) SIXTY_FOUR(each, v) FOUR(each, w)
LOOP_OVER(over_three, THREE_OF_THEM)
LOOP_OVER(over_four, FOUR_OF_THEM)
LOOP_OVER(over_five, FIVE_OF_THEM)
LOOP_OVER(over_many, MANY_OF_THEM)

static int over_variables(void) {
  int wrong = 0;
  for (int i = 0; i < 20; ++i) wrong += over_three() + over_four() + over_five() + over_many();
  if (wrong != 0) printf("%d variables are wrong\n", wrong);
  return wrong;
}

/* Returns LLVM's number of the calling thread; compilers use this function. */
int __kmpc_global_thread_num(void* location) __attribute__((weak));

/* Runs on a second thread of this process, which is the first thread of the child. */
static void* fork_here(void* wrong) {
  *(int*)wrong += over_three();
  const pid_t child = fork();
  if (child == 0) {
    const int number = __kmpc_global_thread_num == NULL ? 0 : __kmpc_global_thread_num(NULL);
    _exit(number != 0 || over_three() + over_many() != 0);
  }
  int status = -1;
  *(int*)wrong += child < 0 || waitpid(child, &status, 0) != child || status != 0;
  char left[64]; /* LLVM's run time leaves this file if a process skips its exit handlers */
  snprintf(left, sizeof left, "/__KMP_REGISTERED_LIB_%d_%d", (int)child, (int)getuid());
  shm_unlink(left);
  return NULL;
}

static int after_fork(void) {
  pthread_t thread;
  int wrong = 0;
  if (pthread_create(&thread, NULL, fork_here, &wrong) != 0) return 1;
  pthread_join(thread, NULL);
  if (wrong != 0) printf("wrong in the child of a fork\n");
  return wrong;
}

static int check(void) {
  int wrong = over_variables();
  for (int i = 0; i < 40; ++i) wrong += by_team_of(1, "as it started");
  for (int threads = 3; threads != 0; --threads) {
    omp_set_num_threads(threads);
    for (int i = 0; i < 20; ++i) wrong += by_team_of(threads, "as it was told");
  }
  wrong += around();
  omp_set_num_threads(2);
  for (int i = 0; i < 40; ++i) {
    alone_in(0, 0); /* a loop of alone_in() has a num_threads clause */
    wrong += by_team_of(2, "after a region of one thread");
  }
  omp_set_num_threads(1);
  for (int i = 0; i < 40; ++i) {
    inside(0);
    inside(1);
  }
  wrong += after_fork();
  if (nested_by_others != 0) printf("nested loops were shared: %d\n", nested_by_others);
  return wrong + nested_by_others;
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("case teams %s\n", check() == 0 ? "ok" : "WRONG");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
