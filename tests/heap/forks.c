/* SPDX-License-Identifier: BSD-3-Clause */
/* Uses of blocks around fork(), a case for each argument. Each case prints "right" at the end,
 * plain and with the heap. Blocks of the heap are in shared memory, which fork() alone does not
 * copy: a child could change the blocks, or the stack, of its parent. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "heap.h"

enum { STACK = 1 << 20, PAGE = 4096 };
static const size_t MEGA = 1 << 20;

/* Returns the child's exit code, or minus the signal that ended the child. */
static int code_of(pid_t pid) {
  int status = 0;
  EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* --- the slack of a block --------------------------------------------------------------------- */

static void slack(void) {
  for (size_t bytes = 15000; bytes < 3000000; bytes = bytes * 5 / 4) {
    for (size_t to = bytes / 2; to < 4 * bytes; to += bytes / 2 + 77) {
      unsigned char* block = malloc(bytes);
      const size_t all = malloc_usable_size(block);
      memset(block, 0x5a, all);
      void* behind = malloc(bytes);
      block = realloc(block, to);
      for (size_t i = 0; i < (all < to ? all : to); ++i) EXPECT(block[i] == 0x5a);
      free(behind);
      free(block);
    }
  }
}

/* --- stacks ----------------------------------------------------------------------------------- */

/* Uses some of the stack. */
static __attribute__((noinline)) int deep(int depth, int value) {
  volatile char here[3000];
  memset((char*)here, value, sizeof here);
  const int below = depth > 0 ? deep(depth - 1, value + 1) : 0;
  for (size_t i = 0; i < sizeof here; ++i) EXPECT(here[i] == (char)value);
  return below + 1;
}

/* Forks on the current stack, of which parent and child must have separate copies. */
static void fork_here(int levels) {
  volatile char mine[10000];
  memset((char*)mine, levels, sizeof mine);
  char* block = malloc(MEGA);
  memset(block, levels, MEGA);
  pthread_mutex_t owned;
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
  EXPECT(pthread_mutex_init(&owned, &kind) == 0 && pthread_mutex_lock(&owned) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    for (size_t i = 0; i < sizeof mine; ++i) EXPECT(mine[i] == (char)levels);
    memset((char*)mine, 100, sizeof mine);
    memset(block, 100, MEGA);
    EXPECT(deep(20, 50) == 21);
    if (levels > 0) fork_here(levels - 1);
    for (size_t i = 0; i < sizeof mine; ++i) EXPECT(mine[i] == 100);
    for (size_t i = 0; i < MEGA; ++i) EXPECT(block[i] == 100);
    _exit(0);
  }
  EXPECT(deep(20, 90) == 21);
  EXPECT(pthread_mutex_unlock(&owned) == 0); /* the thread still owns the mutex */
  EXPECT(code_of(pid) == 0);
  for (size_t i = 0; i < sizeof mine; ++i) EXPECT(mine[i] == (char)levels);
  for (size_t i = 0; i < MEGA; ++i) EXPECT(block[i] == (char)levels);
  free(block);
}

static void fork_some(void) {
  for (int i = 0; i < 5; ++i) fork_here(2);
}

static ucontext_t home;
static char static_stack[STACK] = {1};

static void on_context(char* stack) {
  ucontext_t there;
  EXPECT(getcontext(&there) == 0);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = STACK;
  there.uc_link = &home;
  makecontext(&there, fork_some, 0);
  EXPECT(swapcontext(&home, &there) == 0);
}

static void block_stack(void) {
  char* stack = malloc(STACK);
  on_context(stack);
  free(stack);
}

static void static_array_stack(void) { on_context(static_stack); }

static volatile sig_atomic_t handled;
static void fork_in_handler(int signal) {
  (void)signal;
  fork_here(1);
  ++handled;
}

static void signal_stack(void) {
  const stack_t stack = {.ss_sp = malloc(STACK), .ss_size = STACK};
  EXPECT(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_ONSTACK};
  EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int i = 0; i < 5; ++i) raise(SIGUSR1);
  EXPECT(handled == 5);
}

static void* in_thread(void* unused) {
  fork_some();
  return unused;
}

static pthread_barrier_t started;
static void* waits(void* unused) {
  pthread_barrier_wait(&started);
  pthread_barrier_wait(&started);
  return unused;
}

static void start_on(pthread_t* thread, char* stack, void* (*body)(void*)) {
  pthread_attr_t attributes;
  EXPECT(pthread_attr_init(&attributes) == 0);
  EXPECT(pthread_attr_setstack(&attributes, stack, STACK) == 0);
  EXPECT(pthread_create(thread, &attributes, body, NULL) == 0);
  pthread_attr_destroy(&attributes);
}

/* Several threads have stacks in blocks, and a thread forks. The stacks are freed and reused. */
static void thread_stacks(void) {
  for (int i = 0; i < 3; ++i) {
    pthread_t beside;
    pthread_t forking;
    char* stacks = aligned_alloc(PAGE, 3 * STACK);
    memset(stacks, 1, 3 * STACK);
    EXPECT(pthread_barrier_init(&started, NULL, 2) == 0);
    start_on(&beside, stacks, waits);
    pthread_barrier_wait(&started);
    start_on(&forking, i == 0 ? static_stack : stacks + STACK, in_thread);
    EXPECT(pthread_join(forking, NULL) == 0);
    fork_some();
    pthread_barrier_wait(&started);
    EXPECT(pthread_join(beside, NULL) == 0);
    for (size_t at = 0; at < STACK; ++at) EXPECT(stacks[2 * STACK + at] == 1);
    free(stacks);
    char* again = aligned_alloc(PAGE, 3 * STACK);
    memset(again, 2, 3 * STACK);
    if (door() != NULL) EXPECT(shared(again, 3 * STACK));
    free(again);
  }
}

/* --- handlers --------------------------------------------------------------------------------- */

static char* kept;

/* Arms the timer once, for some time after the handler's return, so that the program progresses. */
static void arm(void) {
  const struct itimerval soon = {{0, 0}, {0, 50 + handled % 37 * 11}};
  EXPECT(setitimer(ITIMER_REAL, &soon, NULL) == 0);
}

static void fork_anywhere(int signal) {
  (void)signal;
  const int before = errno;
  const pid_t pid = fork();
  EXPECT(pid >= 0);
  if (pid == 0) {
    EXPECT(kept[MEGA / 2] == 7);
    kept[MEGA / 2] = 8;
    _exit(0);
  }
  EXPECT(code_of(pid) == 0);
  EXPECT(kept[MEGA / 2] == 7);
  ++handled;
  arm();
  errno = before;
}

/* The handler of a timer forks at any point of the program, mostly in malloc and free. */
static void handler(void) {
  kept = malloc(MEGA);
  kept[MEGA / 2] = 7;
  struct sigaction action = {.sa_handler = fork_anywhere, .sa_flags = SA_RESTART};
  EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
  arm();
  char* blocks[16] = {0};
  for (unsigned i = 0; handled < 200; ++i) {
    char** block = &blocks[i * 2654435761U >> 28U];
    free(*block);
    *block = malloc(20000 + i % 50 * 3000);
    (*block)[100] = 1;
  }
  const struct itimerval never = {{0, 0}, {0, 0}};
  EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

/* Two threads with different signal masks fork at the same time and keep their masks. */
static void* forks_with_mask(void* number) {
  const int blocked = (int)(intptr_t)number;
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, blocked);
  EXPECT(pthread_sigmask(SIG_SETMASK, &mask, NULL) == 0);
  for (int i = 0; i < 200; ++i) {
    const pid_t pid = fork();
    EXPECT(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
    for (int signal = SIGUSR1; signal <= SIGUSR2; ++signal) {
      EXPECT(sigismember(&mask, signal) == (signal == blocked));
    }
    EXPECT(sigismember(&mask, SIGTERM) == 0);
    if (pid == 0) _exit(0);
    EXPECT(code_of(pid) == 0);
  }
  return NULL;
}

static void masks(void) {
  pthread_t threads[2];
  free(malloc(MEGA));
  pthread_create(&threads[0], NULL, forks_with_mask, (void*)(intptr_t)SIGUSR1);
  pthread_create(&threads[1], NULL, forks_with_mask, (void*)(intptr_t)SIGUSR2);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
}

/* --- attributes of pages ---------------------------------------------------------------------- */

static sigjmp_buf back;
static void faulted(int signal) {
  (void)signal;
  siglongjmp(back, 1);
}

static int can_write(volatile char* at) {
  if (sigsetjmp(back, 1) != 0) return 0;
  *at = *at;
  return 1;
}

static int can_read(const volatile char* at) {
  if (sigsetjmp(back, 1) != 0) return 0;
  (void)*at;
  return 1;
}

enum { WRITABLE, READABLE, CLOSED, FILED, PRIVATE, CODE, PAGES };

static char* altered_pages(int file) {
  static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* return 42 */
  char* pages = aligned_alloc(PAGE, (PAGES + 60) * PAGE);
  memset(pages, 1, (PAGES + 60) * PAGE);
  memcpy(pages + CODE * PAGE, code, sizeof code);
  EXPECT(mprotect(pages + READABLE * PAGE, PAGE, PROT_READ) == 0);
  EXPECT(mprotect(pages + CLOSED * PAGE, PAGE, PROT_NONE) == 0);
  EXPECT(mprotect(pages + CODE * PAGE, PAGE, PROT_READ | PROT_EXEC) == 0);
  char* mapped =
      mmap(pages + FILED * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  EXPECT(mapped == pages + FILED * PAGE);
  EXPECT(mmap(pages + PRIVATE * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, PAGE) ==
         pages + PRIVATE * PAGE);
  return pages;
}

static void expect_attributes(char* pages) {
  EXPECT(can_write(pages + WRITABLE * PAGE));
  EXPECT(can_read(pages + READABLE * PAGE) && !can_write(pages + READABLE * PAGE));
  EXPECT(!can_read(pages + CLOSED * PAGE));
  EXPECT(can_read(pages + PRIVATE * PAGE) && !can_write(pages + PRIVATE * PAGE));
  EXPECT(pages[PRIVATE * PAGE] == 4 && pages[READABLE * PAGE] == 1);
  EXPECT(((int (*)(void))(void*)(pages + CODE * PAGE))() == 42);
  EXPECT(mprotect(pages + CLOSED * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
  EXPECT(pages[CLOSED * PAGE] == 1);
  EXPECT(mprotect(pages + CLOSED * PAGE, PAGE, PROT_NONE) == 0);
}

static void use_attributes(char* pages, int levels) {
  int turn[2];
  char word = 0;
  EXPECT(pipe(turn) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(turn[1]); /* the read below ends if the parent fails */
    expect_attributes(pages);
    EXPECT(read(turn[0], &word, 1) == 1);
    EXPECT(pages[FILED * PAGE] == 30 + levels); /* written by the parent after fork() */
    pages[FILED * PAGE + 1] = (char)levels;
    pages[WRITABLE * PAGE] = 9;
    if (levels > 0) use_attributes(pages, levels - 1);
    _exit(0);
  }
  pages[FILED * PAGE] = (char)(30 + levels);
  EXPECT(write(turn[1], &word, 1) == 1);
  EXPECT(code_of(pid) == 0);
  EXPECT(pages[FILED * PAGE + 1] == 0 || levels == 0);
  expect_attributes(pages);
  close(turn[0]);
  close(turn[1]);
}

static void attributes(void) {
  struct sigaction action = {.sa_handler = faulted, .sa_flags = SA_NODEFER};
  EXPECT(sigaction(SIGSEGV, &action, NULL) == 0);
  const int file = memfd_create("own", 0);
  EXPECT(file >= 0 && ftruncate(file, 2 * PAGE) == 0);
  EXPECT(pwrite(file, "\4", 1, PAGE) == 1);
  char* pages = altered_pages(file);
  for (int i = 0; i < 3; ++i) use_attributes(pages, 0);
  use_attributes(pages, 2);
  EXPECT(pages[WRITABLE * PAGE] == 1);
}

/* The case "attributes" after the program has closed the heap's descriptor. */
static void attributes_without_descriptor(void) {
  free(malloc(MEGA));
  for (int fd = 1024; fd < 1100; ++fd) close(fd);
  attributes();
}

/* --- advice ----------------------------------------------------------------------------------- */

static void advice(void) {
  for (int round = 0; round < 2; ++round) {
    char* pages = aligned_alloc(PAGE, 64 * PAGE);
    memset(pages, 1, 64 * PAGE);
    EXPECT(madvise(pages + 8 * PAGE, 8 * PAGE, MADV_DONTNEED) == 0);
    for (size_t i = 0; i < 64 * PAGE; ++i) EXPECT(pages[i] == (i / PAGE / 8 == 1 ? 0 : 1));
    EXPECT(madvise(pages, PAGE, MADV_FREE) == 0);
    pages[0] = 3;
    EXPECT(pages[0] == 3);
    EXPECT(madvise(pages + 32 * PAGE, PAGE, MADV_WIPEONFORK) == 0);
    EXPECT(madvise(pages + 33 * PAGE, PAGE, MADV_DONTFORK) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
      EXPECT(pages[32 * PAGE] == 0 && pages[31 * PAGE] == 1 && pages[34 * PAGE] == 1);
      _exit(0);
    }
    EXPECT(code_of(pid) == 0);
    EXPECT(pages[32 * PAGE] == 1 && pages[33 * PAGE] == 1);
    EXPECT(madvise(pages + 32 * PAGE, PAGE, MADV_KEEPONFORK) == 0);
    EXPECT(madvise(pages + 33 * PAGE, PAGE, MADV_DOFORK) == 0);
    free(pages);
  }
}

struct named {
  const char* name;
  void (*run)(void);
};
static const struct named cases[] = {
    {"slack", slack},
    {"block stack", block_stack},
    {"static stack", static_array_stack},
    {"signal stack", signal_stack},
    {"thread stacks", thread_stacks},
    {"handler", handler},
    {"masks", masks},
    {"attributes", attributes},
    {"attributes without descriptor", attributes_without_descriptor},
    {"advice", advice},
};

int main(int count, char** arguments) {
  EXPECT(count == 2);
  static_stack[0] = 2; /* the page is accessible */
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    if (strcmp(cases[i].name, arguments[1]) != 0) continue;
    alarm(60); /* replaced by the timer of "handler" */
    tell();
    fflush(stdout);
    cases[i].run();
    puts("right");
    return 0;
  }
  return 2;
}
