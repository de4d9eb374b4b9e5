/* SPDX-License-Identifier: BSD-3-Clause */
/* A program alters the pages of blocks that fill the heap's first memory. Later blocks lie in
 * memory by which the heap has grown, and have none of these alterations: the program can write to
 * them, peers can read them, and a fork()ed child has them. Each case names an alteration. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap.h"

enum { MEGA = 1 << 20, FIRST = 64, LATER = 16 };

static void make_read_only(char* block) { EXPECT(mprotect(block, MEGA, PROT_READ) == 0); }
static void close_pages(char* block) { EXPECT(mprotect(block, MEGA, PROT_NONE) == 0); }
static void keep_from_child(char* block) { EXPECT(madvise(block, MEGA, MADV_DONTFORK) == 0); }
static void map_over(char* block) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  EXPECT(mmap(block, MEGA, PROT_READ | PROT_WRITE, flags, -1, 0) == block);
}
static void make_stack(char* block) {
  pthread_attr_t attributes;
  EXPECT(pthread_attr_init(&attributes) == 0);
  EXPECT(pthread_attr_setstack(&attributes, block, MEGA) == 0);
  pthread_attr_destroy(&attributes);
}

static const struct {
  const char* name;
  void (*alter)(char* block);
} cases[] = {{"read only", make_read_only},
             {"closed", close_pages},
             {"not for children", keep_from_child},
             {"mapped over", map_over},
             {"a stack", make_stack}};

static void (*alteration_of(const char* name))(char*) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    if (strcmp(cases[i].name, name) == 0) return cases[i].alter;
  }
  exit(2);
}

static uint64_t mapped(void) {
  struct mh_heap_stats stats = {0};
  if (door() != NULL) door()->stats(&stats);
  return stats.mapped;
}

static char* block_of(int value) {
  void* block = NULL;
  EXPECT(posix_memalign(&block, 4096, MEGA) == 0);
  memset(block, value, MEGA);
  return block;
}

/* Expects that the block is in the memory that peers map. */
static void expect_in_file(const char* block, int value) {
  char there = 0;
  EXPECT(shared(block, MEGA));
  EXPECT(pread(door()->descriptor(), &there, 1, (off_t)(uintptr_t)block) == 1 && there == value);
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  void (*alter)(char*) = alteration_of(arguments[1]);
  alter(block_of(1));
  const uint64_t first = mapped();
  char* later = block_of(2);
  for (int i = 0; i < FIRST && mapped() == first; ++i) {
    alter(later);
    later = block_of(2);
  }
  EXPECT(first == 0 || mapped() > first);
  char* blocks[LATER] = {later};
  for (int i = 1; i < LATER; ++i) blocks[i] = block_of(2);
  for (int i = 0; i < LATER && door() != NULL; ++i) expect_in_file(blocks[i], 2);
  const pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < LATER; ++i) EXPECT(blocks[i][MEGA - 1] == 2);
    _exit(0);
  }
  int status = 1;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  puts("right");
  return 0;
}
