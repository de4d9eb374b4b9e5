// SPDX-License-Identifier: BSD-3-Clause
//
// Windows of every kind are made and freed many times on several communicators, several at a time.
// Neither mappings nor file descriptors grow: a leak would end a long program.
//
// run: ranks 2
// run: ranks 4 helped MH_FAKE_NODES=2 MH_WINDOWS=all
#include <dirent.h>

#include "check.h"

enum { ROUNDS = 40, SETTLED = 10, AT_ONCE = 3 };

static int descriptors(void) {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != NULL) ++count;
  closedir(folder);
  return count;
}

static long mappings(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  long count = 0;
  for (int c = fgetc(maps); c != EOF; c = fgetc(maps)) count += c == '\n';
  fclose(maps);
  return count;
}

static void play_round(MPI_Comm comm, int round) {
  static long own[64];
  MPI_Win wins[AT_ONCE];
  long* memory = NULL;
  const long value = round;
  MPI_Win_allocate(64 * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &memory, &wins[0]);
  MPI_Win_create(own, sizeof own, sizeof(long), MPI_INFO_NULL, comm, &wins[1]);
  MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &wins[2]);
  for (int i = 0; i < 2; ++i) {
    MPI_Win_fence(0, wins[i]);
    MPI_Put(&value, 1, MPI_LONG, (rank + ranks / 2) % ranks, 5, 1, MPI_LONG, wins[i]);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, wins[i]);
  }
  CHECK(memory[5] == round && own[5] == round, "round %d: %ld, %ld", round, memory[5], own[5]);
  for (int i = 0; i < AT_ONCE; ++i) MPI_Win_free(&wins[(i + round) % AT_ONCE]);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  int open = 0;
  long mapped = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    play_round(round % 2 == 0 ? MPI_COMM_WORLD : other, round);
    if (round == SETTLED) open = descriptors();
    if (round == SETTLED) mapped = mappings();
  }
  CHECK(descriptors() <= open + 4, "descriptors: %d, then %d", open, descriptors());
  CHECK(mappings() <= mapped + 12, "mappings: %ld, then %ld", mapped, mappings());
  MPI_Comm_free(&other);
  return end();
}
