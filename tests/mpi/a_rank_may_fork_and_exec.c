// SPDX-License-Identifier: BSD-3-Clause
//
// A rank forks while large messages are under way. The child executes another program (preloaded
// too, and without MPI) or calls _exit. The child must not touch the node segment, the helpers or
// the messages of its parent: the messages arrive intact, and the child ends with its own exit
// code.
//
// run: ranks 2
#include <sys/wait.h>

#include "check.h"

static void run_child(int round) {
  pid_t child = fork();
  if (child == 0) {
    if (round % 2) _exit(7);
    execlp("sh", "sh", "-c", "exit 7", (char*)NULL);
    _exit(9);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child, "the child is lost");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child ended with %x", status);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int other = 1 - rank;
  for (int round = 0; round < 6; ++round) {
    unsigned char *out = filled(LARGE, round + 10 * rank), *in = blank(LARGE);
    MPI_Request requests[2];
    MPI_Irecv(in, LARGE, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[0]);
    if (round < 4) run_child(round);
    MPI_Isend(out, LARGE, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[1]);
    if (round == 2) run_child(round);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (round == 5) CHECK(system("exit 3") == 3 << 8, "system()");
    check_bytes(in, LARGE, round + 10 * other, "a message beside a fork");
    free(in);
    free(out);
  }
  return end();
}
