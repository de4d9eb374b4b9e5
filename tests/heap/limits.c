/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with a memory limit: malloc fails with NULL and ENOMEM at the same point as without the
 * heap. */
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
  free(malloc(1 << 20)); /* initializes the heap */
  const struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
  EXPECT(setrlimit(kind, &limit) == 0);
  const size_t got = until_full(10 << 20);
  /* The limit holds 102 blocks, less the other mappings of the process. */
  printf("blocks: %s\n", got >= 80 && got <= 102 ? "as limited" : "too many");
  return 0;
}
