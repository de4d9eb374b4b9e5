// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of the shared heap costs more at its first touch, and gains something only if another rank
// of the node maps the heap. Under MH_HEAP=auto, blocks that a program allocates after MPI_Init lie
// in the heap if the node has several ranks, and in private memory if it has one (ALONE).
//
// run: ranks 1 heap MH_HEAP=auto ALONE=1
// run: ranks 2 heap MH_HEAP=auto
// run: ranks 2 heap MH_HEAP=auto MH_FAKE_NODES=2 ALONE=1
// run: ranks 2 heap MH_HEAP=auto MH_ENABLE=0 ALONE=1
// run: ranks 1 heap MH_HEAP=on
#include "check.h"

enum { BYTES = 4 << 20 };

static bool is_in_heap(const void* address) {
  FILE* maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL, "cannot read /proc/self/maps");
  char line[4096];
  bool found = false;
  while (!found && fgets(line, sizeof line, maps) != NULL) {
    char* rest = NULL;
    const uintptr_t begin = strtoull(line, &rest, 16);
    const uintptr_t end = strtoull(rest + 1, NULL, 16);
    const uintptr_t at = (uintptr_t)address;
    found = at >= begin && at < end && strstr(line, "memfd:manyhands-heap") != NULL;
  }
  fclose(maps);
  return found;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  char* block = malloc(BYTES);
  CHECK(block != NULL, "no memory");
  memset(block, rank, BYTES);
  const bool is_alone = getenv("ALONE") != NULL;
  CHECK(is_in_heap(block) == !is_alone, "a block lies in %s memory",
        is_alone ? "shared" : "private");
  free(block);
  return end();
}
