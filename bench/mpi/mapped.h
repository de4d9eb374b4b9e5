// SPDX-License-Identifier: BSD-3-Clause
// The limit of an exchange between two ranks of a node, without messages. Each rank copies its
// peer's buffer by one memcpy out of memory that both ranks have mapped. Two flags of each rank
// synchronize the ranks.
#ifndef MH_BENCH_MAPPED_H
#define MH_BENCH_MAPPED_H

#include <mpi.h>
#include <stddef.h>

struct mapped {
  MPI_Win window;
  void* own;                      // buffer of this rank
  const void* peers;              // the peer's buffer, mapped
  struct mapped_flags* flags[2];  // of this rank, of the peer
  long round;                     // number of exchanges that have begun
};

// Collective over `pair`, a communicator of two ranks of a node. Maps a buffer of `bytes` for each
// rank, which its peer can read.
struct mapped mapped_new(MPI_Comm pair, size_t bytes);
void mapped_free(struct mapped* m);
// Copies `bytes` from `offset` of the peer's buffer to `to`, while the peer does the same. Returns
// after both copies.
void mapped_exchange(struct mapped* m, void* to, size_t offset, size_t bytes);

#endif
