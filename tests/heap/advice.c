/* SPDX-License-Identifier: BSD-3-Clause */
/* MADV_DONTNEED makes pages of a large block read as zero, as with the C library's blocks. The
 * length may be no multiple of the page size. The program may have closed the heap's descriptor or
 * altered the block. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap.h"

enum { PAGE = 4096, PAGES = 64 };

static char* filled(void) {
  char* block = aligned_alloc(PAGE, PAGES * PAGE);
  EXPECT(block != NULL);
  memset(block, 1, PAGES * PAGE);
  return block;
}

static void close_descriptor(void) {
  free(malloc(1 << 20));
  for (int fd = 3; fd < 1100; ++fd) close(fd);
}

/* Expects zeros in the pages [from, to), and ones in all others. */
static void expect_zeros(const char* block, int from, int to) {
  for (int i = 0; i < PAGES * PAGE; ++i) {
    const int zero = i / PAGE >= from && i / PAGE < to;
    if (block[i] != !zero) fprintf(stderr, "byte %d of page %d\n", i % PAGE, i / PAGE);
    EXPECT(block[i] == !zero);
  }
}

static void empty_pages(void) {
  static const int lengths[] = {1, PAGE, PAGE + 1, 3 * PAGE - 1, 8 * PAGE};
  char* before = filled();
  char* block = filled();
  char* behind = filled();
  for (int i = 0; i < 5; ++i) {
    EXPECT(madvise(block + 8 * PAGE, (size_t)lengths[i], MADV_DONTNEED) == 0);
    expect_zeros(block, 8, 8 + (lengths[i] + PAGE - 1) / PAGE);
    memset(block, 1, PAGES * PAGE);
  }
  EXPECT(madvise(block, PAGES * PAGE - 1, MADV_DONTNEED) == 0);
  expect_zeros(block, 0, PAGES);
  expect_zeros(before, 0, 0);
  expect_zeros(behind, 0, 0);
  free(before);
  free(block);
  free(behind);
}

static void without_descriptor(void) {
  close_descriptor();
  empty_pages();
}

static void read_only(void) {
  close_descriptor();
  char* block = filled();
  EXPECT(mprotect(block + 4 * PAGE, 2 * PAGE, PROT_READ) == 0);
  EXPECT(madvise(block + 3 * PAGE, 4 * PAGE, MADV_DONTNEED) == 0);
  expect_zeros(block, 3, 7);
  int ends[2];
  EXPECT(pipe(ends) == 0);
  EXPECT(read(ends[0], block, write(ends[1], "a", 1)) == 1);
  EXPECT(write(ends[1], "b", 1) == 1 && read(ends[0], block + 4 * PAGE, 1) == -1);
  EXPECT(mprotect(block + 4 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
  free(block);
}

/* The program's own file stays as it is. */
static void mapped_over(void) {
  close_descriptor();
  char* block = filled();
  const int file = memfd_create("own", 0);
  char* const own = block + 4 * PAGE;
  EXPECT(ftruncate(file, PAGE) == 0 && pwrite(file, "\1", 1, 0) == 1);
  EXPECT(mmap(own, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == own);
  memset(own, 1, PAGE);
  EXPECT(madvise(block + 3 * PAGE, 3 * PAGE, MADV_DONTNEED) == 0);
  for (int i = 0; i < PAGE; ++i) {
    EXPECT(own[i] == 1 && own[i - PAGE] == 0 && own[i + PAGE] == 0);
  }
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  if (strcmp(argv[1], "lengths") == 0) empty_pages();
  if (strcmp(argv[1], "no descriptor") == 0) without_descriptor();
  if (strcmp(argv[1], "read only") == 0) read_only();
  if (strcmp(argv[1], "mapped over") == 0) mapped_over();
  puts("right");
  return 0;
}
