/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that limits itself: memory ends where it would end without us, with NULL and ENOMEM. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "heap.h"

static size_t until_full(size_t each) {
  size_t got = 0;
  for (; got < 10000; ++got) {
    char* block = malloc(each);
    if (block == NULL) break;
    block[0] = 1;
  }
  EXPECT(got == 10000 || errno == ENOMEM);
  return got;
}

int main(int count, char** arguments) {
  EXPECT(count == 2);
  const int kind = strcmp(arguments[1], "data") == 0 ? RLIMIT_DATA : RLIMIT_AS;
  tell();
  free(malloc(1 << 20)); /* the heap has begun */
  const struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
  EXPECT(setrlimit(kind, &limit) == 0);
  const size_t got = until_full(10 << 20);
  /* What the process has mapped itself takes some of 102 blocks. */
  printf("blocks: %s\n", got >= 80 && got <= 102 ? "as limited" : "too many");
  return 0;
}
