// SPDX-License-Identifier: BSD-3-Clause
// Copies between two ranks in mapped memory, without MPI. See mapped.h.
#include "mapped.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "measure.h"

enum { kPage = 4096 };

// The flags of a rank in shared memory. The value of a flag is the number of a round, from 1. The
// rank itself stores a flag (release). Its peer waits until the flag has reached the peer's own
// round (acquire).
struct mapped_flags {
  _Alignas(128) atomic_long ready;   // this rank's buffer is written
  _Alignas(128) atomic_long copied;  // this rank has read the peer's buffer
};

static struct mapped_flags* part_of(MPI_Win window, int rank) {
  MPI_Aint bytes;
  int unit;
  char* part;
  MPI_Win_shared_query(window, rank, &bytes, &unit, &part);
  return (struct mapped_flags*)(((uintptr_t)part + kPage - 1) / kPage * kPage);
}

struct mapped mapped_new(MPI_Comm pair, size_t bytes) {
  struct mapped m = {.round = 0};
  int rank, ranks;
  char* mine;
  MPI_Comm_rank(pair, &rank);
  MPI_Comm_size(pair, &ranks);
  if (ranks != 2) fail("--mode mapped is for two ranks");
  const MPI_Aint room = (MPI_Aint)((bytes + kPage - 1) / kPage * kPage) + 2 * kPage;
  MPI_Win_allocate_shared(room, 1, MPI_INFO_NULL, pair, &mine, &m.window);
  memset(mine, 0, (size_t)room);
  MPI_Barrier(pair);
  m.flags[0] = part_of(m.window, rank);
  m.flags[1] = part_of(m.window, 1 - rank);
  m.own = (char*)m.flags[0] + kPage;
  m.peers = (char*)m.flags[1] + kPage;
  return m;
}

void mapped_free(struct mapped* m) { MPI_Win_free(&m->window); }

static void tell_and_wait(atomic_long* own, atomic_long* peers, long round) {
  atomic_store_explicit(own, round, memory_order_release);
  while (atomic_load_explicit(peers, memory_order_acquire) < round) {
  }
}

void mapped_exchange(struct mapped* m, void* to, size_t offset, size_t bytes) {
  m->round++;
  tell_and_wait(&m->flags[0]->ready, &m->flags[1]->ready, m->round);
  memcpy(to, (const char*)m->peers + offset, bytes);
  tell_and_wait(&m->flags[0]->copied, &m->flags[1]->copied, m->round);
}
