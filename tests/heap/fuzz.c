/* SPDX-License-Identifier: BSD-3-Clause */
/* A random program of allocations, for one seed: fuzz SEED STEPS.
 *
 * The program knows the value of every byte of its blocks, up to malloc_usable_size(): a pattern
 * from the block's key. The program resizes blocks; it protects pages, maps files over pages and
 * empties pages. It forks in forks, on stacks in blocks, in signal handlers that interrupt malloc,
 * and beside threads that allocate. Parent and child each check and change every byte. The program
 * passes with the C library's malloc, so a failure with the heap is a fault of the heap. */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "heap.h"

enum { BLOCKS = 48, PAGE = 4096, STACK = 256 << 10, MOST_FORKS = 2, THREADS = 3 };
static const size_t MOST_BYTES = 24 << 20; /* of all blocks of a world */

/* The state of the special pages of a block. All other pages are PLAIN. */
typedef enum { PLAIN, READ_ONLY, NO_ACCESS, ZERO, PRIVATE_MAP, SHARED_MAP, KINDS } Kind;

typedef struct {
  unsigned char* at;
  size_t bytes; /* usable bytes */
  uint64_t key;
  Kind kind;
  size_t from, to; /* the special pages, as offsets */
  uint64_t special_key;
} Block;

/* The blocks of a thread. */
typedef struct {
  uint64_t random;
  Block blocks[BLOCKS];
  size_t bytes;
  int forks;   /* number of forks from the first process to this one */
  bool alone;  /* the process has one thread */
  bool parent; /* a child is alive */
} World;

static World own;
static bool has_had_threads;
static _Thread_local sigjmp_buf faulted;

static uint64_t draw(World* world) {
  world->random ^= world->random << 13;
  world->random ^= world->random >> 7;
  return world->random ^= world->random << 17;
}
static size_t below(World* world, size_t limit) { return (size_t)(draw(world) >> 8) % limit; }

/* Draws sizes on both sides of the threshold, most of them near the threshold. */
static size_t draw_size(World* world) {
  const size_t most = (size_t)1 << (4 + below(world, below(world, 4) == 0 ? 19 : 14));
  return 1 + below(world, most);
}

/* --- contents ---------------------------------------------------------------------------------*/

static uint64_t word_of(uint64_t key, size_t at) {
  return key == 0 ? 0 : (key + at) * 0x9e3779b97f4a7c15u;
}

/* Writes a pattern, which may begin at any byte. Whole words are written faster. */
static void fill(unsigned char* block, size_t from, size_t to, uint64_t key) {
  for (size_t at = from; at < to;) {
    const uint64_t word = word_of(key, at / 8);
    const size_t part = at % 8, bytes = 8 - part < to - at ? 8 - part : to - at;
    memcpy(block + at, (const char*)&word + part, bytes);
    at += bytes;
  }
}

static void expect(const unsigned char* block, size_t from, size_t to, uint64_t key) {
  for (size_t at = from; at < to;) {
    const uint64_t word = word_of(key, at / 8);
    const size_t part = at % 8, bytes = 8 - part < to - at ? 8 - part : to - at;
    EXPECT(memcmp(block + at, (const char*)&word + part, bytes) == 0);
    at += bytes;
  }
}

static void on_fault(int number) {
  (void)number;
  siglongjmp(faulted, 1);
}

static bool faults(volatile unsigned char* byte, bool writes) {
  if (sigsetjmp(faulted, 1) != 0) return true;
  const unsigned char value = *byte;
  if (writes) *byte = value;
  return false;
}

static void check(const Block* block) {
  const bool plain = block->kind == PLAIN;
  expect(block->at, 0, plain ? block->bytes : block->from, block->key);
  if (plain) return;
  expect(block->at, block->to, block->bytes, block->key);
  const bool readable = block->kind != NO_ACCESS;
  EXPECT(faults(block->at + block->from, false) == !readable);
  EXPECT(faults(block->at + block->to - 1, true) == (!readable || block->kind == READ_ONLY));
  if (readable) expect(block->at, block->from, block->to, block->special_key);
}

static void check_all(const World* world) {
  for (int i = 0; i < BLOCKS; ++i) {
    if (world->blocks[i].at != NULL) check(&world->blocks[i]);
  }
}

static void rewrite(World* world, Block* block) {
  block->key = draw(world) | 1;
  fill(block->at, 0, block->kind == PLAIN ? block->bytes : block->from, block->key);
  if (block->kind == PLAIN) return;
  fill(block->at, block->to, block->bytes, block->key);
  if (block->kind == READ_ONLY || block->kind == NO_ACCESS) return;
  /* Parent and child share the pages of a shared map. */
  if (block->kind == SHARED_MAP && (world->forks != 0 || world->parent)) return;
  block->special_key = draw(world) | 1;
  fill(block->at, block->from, block->to, block->special_key);
}

/* --- allocation -------------------------------------------------------------------------------*/

static unsigned char* allocate(World* world, size_t bytes) {
  void* block = NULL;
  const size_t alignment = (size_t)16 << below(world, 12);
  switch (below(world, 8)) {
    case 0:
      return memalign(alignment, bytes);
    case 1:
      return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    case 2:
      EXPECT(posix_memalign(&block, alignment, bytes) == 0);
      return block;
    case 3:
      return realloc(NULL, bytes);
    case 4:
      return valloc(bytes);
    case 5:
      block = calloc(bytes, 1);
      expect(block, 0, bytes, 0);
      return block;
    default:
      return malloc(bytes);
  }
}

static void add(World* world, Block* block) {
  if (world->bytes > MOST_BYTES) return;
  const size_t bytes = draw_size(world);
  unsigned char* at = allocate(world, bytes);
  EXPECT(at != NULL && malloc_usable_size(at) >= bytes);
  *block = (Block){.at = at, .bytes = malloc_usable_size(at)};
  world->bytes += block->bytes;
  rewrite(world, block);
}

/* Makes the special pages plain again, and rewrites their contents. */
static void make_plain(Block* block) {
  const Kind kind = block->kind;
  unsigned char* from = block->at + block->from;
  const size_t bytes = block->to - block->from;
  block->kind = PLAIN;
  if (kind == PLAIN) return;
  if (kind == READ_ONLY || kind == NO_ACCESS) {
    EXPECT(mprotect(from, bytes, PROT_READ | PROT_WRITE) == 0);
    expect(block->at, block->from, block->to, block->special_key);
  }
  if (kind == SHARED_MAP) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    EXPECT(mmap(from, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == from);
  }
  fill(block->at, block->from, block->to, block->key);
}

static void release(World* world, Block* block) {
  make_plain(block);
  check(block);
  world->bytes -= block->bytes;
  free(block->at);
  block->at = NULL;
}

static void resize(World* world, Block* block) {
  make_plain(block);
  const size_t before = block->bytes;
  const size_t wanted = below(world, 2) == 0 ? draw_size(world) : before + below(world, before + 1);
  unsigned char* at = realloc(block->at, wanted);
  EXPECT(at != NULL);
  expect(at, 0, before < wanted ? before : wanted, block->key);
  block->at = at;
  block->bytes = malloc_usable_size(at);
  EXPECT(block->bytes >= wanted);
  world->bytes += block->bytes - before;
  rewrite(world, block);
}

/* --- special pages ----------------------------------------------------------------------------*/

static void map_file(World* world, Block* block) {
  const size_t bytes = block->to - block->from;
  unsigned char* from = block->at + block->from;
  const int file = memfd_create("fuzz", MFD_CLOEXEC);
  EXPECT(file >= 0 && ftruncate(file, (off_t)bytes) == 0);
  const int flags = (block->kind == SHARED_MAP ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED;
  EXPECT(mmap(from, bytes, PROT_READ | PROT_WRITE, flags, file, 0) == from);
  close(file);
  block->special_key = draw(world) | 1;
  fill(block->at, block->from, block->to, block->special_key);
}

static void make_special(World* world, Block* block) {
  make_plain(block);
  const size_t begin = (size_t)(-(uintptr_t)block->at % PAGE);
  if (block->bytes < begin + 3 * PAGE) return;
  /* The C library's own words lie beside the block: the first and the last page stay plain. */
  const size_t pages = (block->bytes - begin) / PAGE - 1;
  block->from = begin + below(world, pages) * PAGE;
  if (block->from == 0) block->from = PAGE;
  block->to = block->from + PAGE;
  while (block->to + 2 * PAGE <= block->bytes && below(world, 3) != 0) block->to += PAGE;
  if (block->to + 1 > block->bytes) return;
  block->kind = (Kind)(1 + below(world, KINDS - 1));
  block->special_key = block->key;
  unsigned char* from = block->at + block->from;
  const size_t bytes = block->to - block->from;
  if (block->kind == READ_ONLY) EXPECT(mprotect(from, bytes, PROT_READ) == 0);
  if (block->kind == NO_ACCESS) EXPECT(mprotect(from, bytes, PROT_NONE) == 0);
  if (block->kind == ZERO) {
    EXPECT(madvise(from, bytes, MADV_DONTNEED) == 0);
    block->special_key = 0;
  }
  if (block->kind == PRIVATE_MAP || block->kind == SHARED_MAP) map_file(world, block);
}

/* --- forks ------------------------------------------------------------------------------------*/

static void some_steps(World* world, int steps);

static void change_all(World* world) {
  for (int i = 0; i < BLOCKS; ++i) {
    if (world->blocks[i].at != NULL) rewrite(world, &world->blocks[i]);
  }
}

static void await(pid_t pid) {
  int status = 0;
  EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void fork_now(World* world) {
  if (world->forks == MOST_FORKS) return;
  const pid_t pid = fork();
  if (pid == 0) {
    ++world->forks;
    world->random ^= 0x5555;
    check_all(world);
    change_all(world);
    some_steps(world, 12);
    check_all(world);
    _exit(0);
  }
  world->parent = true;
  change_all(world);
  check_all(world);
  await(pid);
  world->parent = false;
  check_all(world);
}

static ucontext_t home, away;
static void fork_away(void) { fork_now(&own); }

static void fork_on_block(World* world) {
  if (world != &own) return;
  unsigned char* stack = memalign((size_t)16 << below(world, 9), STACK);
  EXPECT(stack != NULL && getcontext(&away) == 0);
  away.uc_stack.ss_sp = stack;
  away.uc_stack.ss_size = STACK;
  away.uc_link = &home;
  makecontext(&away, fork_away, 0);
  EXPECT(swapcontext(&home, &away) == 0);
  free(stack);
}

static void fork_in_handler(int number) {
  (void)number;
  const pid_t pid = fork();
  if (pid == 0) {
    check_all(&own);
    _exit(0);
  }
  await(pid);
}

static void signal_on_block(World* world) {
  if (world != &own || !world->alone) return;
  const stack_t stack = {.ss_sp = malloc(STACK), .ss_size = STACK};
  stack_t before;
  const struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_ONSTACK};
  EXPECT(sigaltstack(&stack, &before) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
  EXPECT(raise(SIGUSR1) == 0 && sigaltstack(&before, NULL) == 0);
  free(stack.ss_sp);
}

/* The timer's handler forks while this thread is in malloc or free. The C library supports such a
 * fork in a process that has never had a second thread. */
static void interrupted(World* world) {
  if (world != &own || has_had_threads || world->forks != 0) return;
  const struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
  const struct itimerval never = {{0, 0}, {0, 0}};
  EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
  for (int i = 0; i < 1000; ++i) {
    const struct itimerval soon = {{0, 0}, {0, 1 + (suseconds_t)below(world, 200)}};
    if (i % 100 == 0) EXPECT(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    void* block = malloc(draw_size(world));
    EXPECT(block != NULL && (block = realloc(block, draw_size(world))) != NULL);
    free(block);
  }
  EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

/* --- threads ----------------------------------------------------------------------------------*/

static void* thread(void* world) {
  some_steps(world, 25);
  check_all(world);
  return NULL;
}

/* Threads with their own worlds, on stacks in blocks, while this thread forks. */
static void threads(World* world) {
  if (world != &own || !world->alone || world->forks == MOST_FORKS) return;
  static World worlds[THREADS];
  pthread_t threads[THREADS];
  void* stacks[THREADS];
  world->alone = false;
  has_had_threads = true;
  for (int i = 0; i < THREADS; ++i) {
    worlds[i] = (World){.random = draw(world) | 1, .forks = MOST_FORKS - 1};
    pthread_attr_t attributes;
    stacks[i] = aligned_alloc(PAGE, STACK);
    EXPECT(stacks[i] != NULL && pthread_attr_init(&attributes) == 0);
    EXPECT(pthread_attr_setstack(&attributes, stacks[i], STACK) == 0);
    EXPECT(pthread_create(&threads[i], &attributes, thread, &worlds[i]) == 0);
    pthread_attr_destroy(&attributes);
  }
  fork_now(world);
  for (int i = 0; i < THREADS; ++i) {
    EXPECT(pthread_join(threads[i], NULL) == 0);
    for (int k = 0; k < BLOCKS; ++k) {
      if (worlds[i].blocks[k].at != NULL) release(&worlds[i], &worlds[i].blocks[k]);
    }
    free(stacks[i]);
  }
  world->alone = true;
}

/* --- the program ------------------------------------------------------------------------------*/

static void step(World* world) {
  Block* block = &world->blocks[below(world, BLOCKS)];
  const size_t what = below(world, 100);
  if (block->at == NULL) return add(world, block);
  if (what < 25) return release(world, block);
  if (what < 55) return resize(world, block);
  if (what < 70) return rewrite(world, block);
  if (what < 88) return make_special(world, block);
  if (what < 92) return fork_now(world);
  if (what < 94) return fork_on_block(world);
  if (what < 96) return signal_on_block(world);
  if (what < 97) return threads(world);
  if (what < 98) return interrupted(world);
  malloc_trim(0);
}

static void some_steps(World* world, int steps) {
  for (int i = 0; i < steps; ++i) {
    step(world);
    const Block* seen = &world->blocks[below(world, BLOCKS)];
    if (seen->at != NULL) check(seen);
  }
}

int main(int count, char** arguments) {
  EXPECT(count == 3);
  tell();
  fflush(stdout);
  const struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
  EXPECT(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
  own.random = strtoull(arguments[1], NULL, 10) * 0x9e3779b97f4a7c15u | 1;
  own.alone = true;
  for (int i = 0; i < 8; ++i) draw(&own);
  some_steps(&own, atoi(arguments[2]));
  check_all(&own);
  for (int i = 0; i < BLOCKS; ++i) {
    if (own.blocks[i].at != NULL) release(&own, &own.blocks[i]);
  }
  puts("right");
  return 0;
}
