// SPDX-License-Identifier: BSD-3-Clause
//
// Sends a message of 300 MB. If MANYHANDS_TEST_HUGE is set and there is enough memory, a message of
// more than 2^31 bytes follows, in elements of 1 MB. A length kept in 32 bits would cut the
// message.
//
// run: ranks 2
#include "check.h"

static bool memory_for(size_t bytes) {
  FILE* file = fopen("/proc/meminfo", "r");
  char line[128];
  size_t kilobytes = 0;
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "MemAvailable: %zu", &kilobytes) == 1) break;
  }
  if (file != NULL) fclose(file);
  return kilobytes / 4 * 1024 > bytes;
}

static void exchange(size_t bytes, int unit) {
  MPI_Datatype type;
  MPI_Status status;
  MPI_Type_contiguous(unit, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  uint64_t* data = malloc(bytes);
  size_t words = bytes / 8;
  for (size_t i = 0; i < words; ++i) data[i] = rank == 0 ? i * 0x9e3779b97f4a7c15u : 0;
  if (rank == 0) MPI_Send(data, (int)(bytes / (size_t)unit), type, 1, TAG, MPI_COMM_WORLD);
  if (rank == 1) {
    int count = -1;
    MPI_Recv(data, (int)(bytes / (size_t)unit), type, 0, TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, type, &count);
    CHECK(count == (int)(bytes / (size_t)unit), "count %d", count);
    for (size_t i = 0; i < words; ++i) {
      CHECK(data[i] == i * 0x9e3779b97f4a7c15u, "word %zu of %zu is wrong", i, words);
    }
  }
  free(data);
  MPI_Type_free(&type);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  if (!memory_for(300u << 20)) return skip("not enough memory");
  exchange(300u << 20, 1);
  bool more = memory_for((size_t)5 << 29) && getenv("MANYHANDS_TEST_HUGE") != NULL;
  if (more) exchange((size_t)5 << 29, 1 << 20);
  return end();
}
