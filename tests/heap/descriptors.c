/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that counts, closes and reuses descriptors, and then forks. The heap must not rely on
 * the number of its own descriptor, which the program closes or gives to another file. */
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap.h"

int main(void) {
  struct rlimit limit;
  EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  /* The program opens all permitted numbers, or all below 1203, except some for fork(). */
  const int end = limit.rlim_cur < 1203 + 16 ? (int)limit.rlim_cur - 16 : 1203;
  tell();
  char* block = malloc(4 << 20);
  memset(block, 1, 4 << 20);
  const int next = open("/dev/null", O_RDONLY);
  EXPECT(next == 3); /* the heap takes no low numbers */
  for (int fd = 3; fd < 3000; ++fd) close(fd);
  for (int fd = 3; fd < end; ++fd) EXPECT(open("/dev/null", O_RDONLY) == fd);
  const pid_t pid = fork();
  if (pid == 0) {
    EXPECT(block[1 << 20] == 1);
    memset(block, 2, 4 << 20);
    for (int fd = 3; fd < end; ++fd) EXPECT(fcntl(fd, F_GETFD) >= 0);
    _exit(0);
  }
  int status = 1;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  for (size_t i = 0; i < 4 << 20; ++i) EXPECT(block[i] == 1);
  for (int fd = 3; fd < end; ++fd) EXPECT(fcntl(fd, F_GETFD) >= 0);
  free(malloc(200 << 20));
  puts("right");
  return 0;
}
