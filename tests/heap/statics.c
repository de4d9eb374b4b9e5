/* SPDX-License-Identifier: BSD-3-Clause */
/* Static arrays: moved before main with their initial values, private again in a forked child. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap.h"

static char zeros[8 << 20];
static char ones[2 << 20] = {1, 2, 3};
static int written_early;

/* Writes to an array before main. */
__attribute__((constructor)) static void early(void) {
  zeros[5 << 20] = 42;
  written_early = zeros[5 << 20];
}

int main(void) {
  tell();
  printf("shared: %d %d\n", shared(zeros, sizeof zeros), shared(ones, sizeof ones));
  EXPECT(ones[0] == 1 && ones[2] == 3 && ones[1 << 20] == 0);
  EXPECT(written_early == 42 && zeros[5 << 20] == 42 && zeros[0] == 0);
  memset(zeros, 1, sizeof zeros);
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    EXPECT(zeros[100] == 1 && ones[1] == 2);
    memset(zeros, 2, sizeof zeros);
    ones[1] = 9;
    EXPECT(!shared(zeros, 1));
    _exit(0);
  }
  int status = 1;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  for (size_t i = 0; i < sizeof zeros; ++i) EXPECT(zeros[i] == 1);
  EXPECT(ones[1] == 2);
  puts("right");
  return 0;
}
