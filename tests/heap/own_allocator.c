/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with its own malloc: the heap must not take its place or free its blocks. */
#include <string.h>

#include "heap.h"

static char pool[64 << 20];
static size_t used;

void* malloc(size_t bytes) {
  void* block = pool + used;
  used += (bytes + 63) / 64 * 64;
  return used <= sizeof pool ? block : NULL;
}
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t each) { return malloc(count * each); }
void* realloc(void* block, size_t bytes) {
  void* there = malloc(bytes);
  if (block != NULL) memcpy(there, block, bytes);
  return there;
}

int main(void) {
  tell();
  char* block = malloc(1 << 20);
  EXPECT(block >= pool && block < pool + sizeof pool);
  EXPECT(!shared(block, 1));
  free(block);
  puts("right");
  return 0;
}
