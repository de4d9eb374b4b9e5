// SPDX-License-Identifier: BSD-3-Clause
//
// While rank 2 waits, helper threads of rank 1 copy what rank 1 receives on the core of rank 2:
// every byte arrives, also where a receive is longer than its message, and the program goes on
// until such a thread has been seen to work. Plain runs have no such thread and do a few rounds.
//
// run: ranks 3 MH_CORES=4 MH_LEND_COPIES=1
// run: ranks 4 MH_CORES=4 MH_LEND_COPIES=1 MH_CHUNK=16K
#include <dirent.h>

#include "check.h"

enum { BYTES = 6000000, ROOM = BYTES + 4096, PLAIN_ROUNDS = 5, LEAST_CPU_NS = 1000000 };

static bool lending_is_on(void) {
  const char* preload = getenv("LD_PRELOAD");
  return preload != NULL && strstr(preload, "libmanyhands") != NULL;
}

// One line of a file under /proc/self/task/`thread`; false if the thread is gone.
static bool read_line(const char* thread, const char* file, char* line, int size) {
  char path[128];
  snprintf(path, sizeof path, "/proc/self/task/%.32s/%s", thread, file);
  FILE* opened = fopen(path, "r");
  if (opened == NULL) return false;
  const bool read = fgets(line, size, opened) != NULL;
  fclose(opened);
  return read;
}

// Processor time of all helper threads of this process.
static long long helper_ns(void) {
  long long sum = 0;
  char line[128];
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL, "no /proc/self/task");
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) {
    if (!read_line(task->d_name, "comm", line, sizeof line)) continue;
    if (strncmp(line, "mh-helper", 9) != 0) continue;
    if (read_line(task->d_name, "schedstat", line, sizeof line)) sum += atoll(line);
  }
  closedir(tasks);
  return sum;
}

static void receive(unsigned char* buffer, int round) {
  MPI_Status status;
  memset(buffer, 0xEE, ROOM);
  MPI_Recv(buffer, ROOM, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
  check_status(&status, 0, TAG, BYTES);
  check_bytes(buffer, BYTES, round, "message");
  for (int i = BYTES; i < ROOM; i++) CHECK(buffer[i] == 0xEE, "byte %d behind the message", i);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  unsigned char* buffer = malloc(ROOM);
  int go_on = 1;
  for (int round = 0; go_on; round++) {
    if (rank == 0) {
      fill(buffer, BYTES, round);
      MPI_Send(buffer, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    }
    if (rank == 1) {
      receive(buffer, round);
      go_on = lending_is_on() ? helper_ns() < LEAST_CPU_NS : round < PLAIN_ROUNDS;
    }
    MPI_Bcast(&go_on, 1, MPI_INT, 1, MPI_COMM_WORLD);
  }
  free(buffer);
  return end();
}
