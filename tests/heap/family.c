/* SPDX-License-Identifier: BSD-3-Clause */
/* Every function of the malloc family, at sizes on both sides of the threshold. Results, alignment,
 * contents and errno must be as with the C library. The output is the same plain and with the heap,
 * except for the first line. */
#include <errno.h>
#include <malloc.h>
#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap.h"

enum { SIZES = 9 };
static const size_t sizes[SIZES] = {1,      100,     16383,         16384,           16385,
                                    100000, 1 << 20, (5 << 20) + 3, (size_t)70 << 20};
static void* volatile sink; /* keeps the compiler from removing calls */

static void check(void* block, size_t alignment, size_t bytes) {
  EXPECT(block != NULL);
  EXPECT((uintptr_t)block % alignment == 0);
  EXPECT(malloc_usable_size(block) >= bytes);
  const size_t at_ends = bytes < 4096 ? bytes : 4096;
  memset(block, 0xa5, at_ends);
  memset((char*)block + bytes - at_ends, 0xa5, at_ends);
  sink = block;
  free(block);
}

static void all_functions(size_t bytes) {
  const size_t page = (size_t)getpagesize();
  check(malloc(bytes), alignof(max_align_t), bytes);
  check(realloc(NULL, bytes), alignof(max_align_t), bytes);
  check(reallocarray(NULL, bytes, 1), alignof(max_align_t), bytes);
  check(valloc(bytes), page, bytes);
  check(pvalloc(bytes), page, (bytes + page - 1) / page * page);
  for (size_t alignment = sizeof(void*); alignment <= (size_t)4 << 20; alignment *= 2) {
    void* block = NULL;
    EXPECT(posix_memalign(&block, alignment, bytes) == 0);
    check(block, alignment, bytes);
    check(memalign(alignment, bytes), alignment, bytes);
    check(aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment), alignment,
          bytes);
  }
}

static void zeros(size_t bytes) {
  for (int again = 0; again < 3; ++again) {
    char* block = calloc(bytes, 1);
    EXPECT(block != NULL);
    for (size_t i = 0; i < bytes; i += i < 4096 ? 1 : 509) EXPECT(block[i] == 0);
    memset(block, 1, bytes);
    free(block);
  }
}

/* Resizes from each size to each other size. */
static void resizing(void) {
  for (int from = 0; from < SIZES; ++from) {
    for (int to = 0; to < SIZES; ++to) {
      char* block = malloc(sizes[from]);
      EXPECT(block != NULL);
      memset(block, from + 1, sizes[from]);
      block = realloc(block, sizes[to]);
      EXPECT(block != NULL);
      const size_t both = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
      for (size_t i = 0; i < both; i += i < 4096 ? 1 : 4093) EXPECT(block[i] == from + 1);
      EXPECT(block[both - 1] == from + 1);
      memset(block, 7, sizes[to]);
      free(block);
    }
  }
  char* block = malloc(1 << 20);
  EXPECT(realloc(block, 0) == NULL);
}

static void impossible(void) {
  volatile size_t huge = SIZE_MAX / 2; /* a value that the compiler does not know */
  void* block = NULL;
  errno = 0;
  EXPECT(malloc(huge) == NULL && errno == ENOMEM);
  errno = 0;
  EXPECT(calloc(huge, 4) == NULL && errno == ENOMEM);
  errno = 0;
  EXPECT(reallocarray(NULL, huge, 4) == NULL && errno == ENOMEM);
  char* kept = malloc(1 << 20);
  kept[12345] = 3;
  errno = 0;
  EXPECT(realloc(kept, huge) == NULL && errno == ENOMEM);
  EXPECT(kept[12345] == 3);
  free(kept);
  EXPECT(posix_memalign(&block, 24, 1 << 20) == EINVAL);
  EXPECT(posix_memalign(&block, sizeof(void*), huge) == ENOMEM);
  errno = 99;
  free(malloc(1 << 20));
  free(NULL);
  EXPECT(errno == 99);
}

int main(void) {
  tell();
  char* large = malloc(1 << 20);
  printf("shared: %d\n", shared(large, 1 << 20));
  free(large);
  for (int i = 0; i < SIZES; ++i) {
    all_functions(sizes[i]);
    zeros(sizes[i]);
  }
  resizing();
  impossible();
  EXPECT(madvise(sink, 0, 12345) == -1 && errno == EINVAL);
  puts("right");
  return 0;
}
