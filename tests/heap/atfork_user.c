/* SPDX-License-Identifier: BSD-3-Clause */
/* Forks with the handlers of a library (atfork.c). Checks what they wrote in parent and child. */
#include <sys/wait.h>
#include <unistd.h>

#include "heap.h"

int atfork_value(void);

int main(void) {
  alarm(60);
  tell();
  fflush(stdout);
  for (int i = 0; i < 20; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      EXPECT(i == 0 || atfork_value() == 2);
      _exit(0);
    }
    int status = 1;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(atfork_value() == (i == 0 ? 0 : 1));
  }
  puts("right");
  return 0;
}
