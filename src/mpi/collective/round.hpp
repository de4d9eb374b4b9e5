// SPDX-License-Identifier: BSD-3-Clause
// A round, a collective that the ranks of a node carry out themselves (coll/board_group.hpp), on
// this rank: publishes the rank's record, waits for the records of its peers, and reads and writes
// their mapped buffers.
//
// Threads: one thread at a time in the collectives of a communicator, as MPI requires. Limit: the
// wait for a peer has no time limit. If a rank dies in a collective, the launcher ends the MPI job.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "coll/board_group.hpp"
#include "memory/view.hpp"
#include "mpi/abi.hpp"
#include "mpi/collective/arrivals.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/switches.hpp"

namespace mh::mpi::direct {

enum class RoundCall : std::uint8_t {
  bcast,
  gather,
  scatter,
  allgather,
  alltoall,
  reduce,
  allreduce,
  reduce_scatter_block,
  scan,
  exscan,
  gatherv,
  scatterv,
  allgatherv,
  alltoallv,
  alltoallw,
  window,  // the creation of a window (rma/windows.cpp)
};

// The communicator with this handle, or null if its ranks have no boards (coll/board_group.hpp) and
// so cannot carry out its collectives themselves.
inline Comm* comm_with_boards(MPI_Comm handle) {
  Comm* comm = comms::find(handle);
  if (comm == nullptr) return nullptr;
  if (comm->group == kUnknownGroup) [[unlikely]]
    arrivals::join(*comm);
  return comm->boards ? comm : nullptr;
}

inline bool is_rank(const Comm& comm, int rank) { return rank >= 0 && rank < comm.size; }

// False if the program has switched off help on this rank by MPI_Pcontrol. Help may be on at other
// ranks, which then wait for this rank's record. This rank therefore still publishes a record,
// which says that its data goes by the MPI library.
inline bool is_switched_on() { return switches.switched_on.load(std::memory_order_relaxed); }

// True if a round with `bytes` bytes of data of each rank is to go through staged blocks. The data
// must fit into the staged block of a board, and no rank may have to read more than
// kMostStagedReads bytes. The result is equal on all ranks.
inline bool is_staged(std::uint64_t bytes, const Comm& comm) {
  constexpr std::uint64_t kMostStagedReads = 8 * coll::kStagedBytes;
  return bytes <= coll::kStagedBytes &&
         bytes * static_cast<std::uint64_t>(comm.size) <= kMostStagedReads;
}

class Round {
 public:
  // Begins the communicator's next round. `call`: the collective. `bytes`: the length of this
  // rank's data. `terms`: further facts about the call that must be equal on all ranks, such as
  // operation, type or root.
  Round(Comm& comm, RoundCall call, std::uint64_t bytes, std::uint32_t terms = 0);

  // The staged block, into which the caller writes its data before publish_staged().
  [[nodiscard]] std::byte* stage() { return stage(bytes_); }
  // In each round, a rank calls one of the next three functions, once, to publish its record.
  // The function publish_staged() offers the data in stage(). The function publish_mapped() offers
  // the data in this rank's own buffers. The function publish_library() offers no data. It leaves
  // the collective to the MPI library if every rank needs the data of all ranks, or if the root
  // decides and this rank is the root. A rank that only receives data from the root has none to
  // offer, and therefore also calls publish_library(). The ranks then still carry out the round.
  void publish_staged() { boards_.publish_staged(terms_, bytes_); }
  // `source` and `target`: this rank's send and receive buffer; null if the call has no such
  // buffer. If a buffer is not in the shared heap or help is switched off on this rank, the
  // function calls publish_library() instead and returns false.
  bool publish_mapped(const void* source, std::uint64_t source_bytes, const void* target,
                      std::uint64_t target_bytes);
  void publish_library() { boards_.publish_library(terms_); }

  // Waits for the records of all ranks. True if all records have the route `route`, and the terms
  // and bytes of this rank's record.
  bool all_agree(coll::Route route);
  // Waits for the record of one rank, and returns it.
  const coll::RoundRecord& await(int rank);
  [[nodiscard]] bool has_come(int rank) const { return boards_.has_come(index(rank)); }
  [[nodiscard]] coll::Route route_of(int rank) const { return boards_.route_of(index(rank)); }
  [[nodiscard]] bool has_terms(const coll::RoundRecord& record) const {
    return has_call(record) && record.bytes == bytes_;
  }
  // True if the record names the same collective and the same terms (operation, type, root) as this
  // rank's record; the numbers of bytes may differ.
  [[nodiscard]] bool has_call(const coll::RoundRecord& record) const {
    return record.terms == terms_;
  }

  // The staged data of a rank that has published its record of this round.
  [[nodiscard]] const std::byte* staged_by(int rank) const {
    return boards_.staged_by(index(rank), boards_.record_of(index(rank)).bytes);
  }

  // The address of the source (send buffer) that `rank` has published as mapped. It is an address
  // in the process of `rank`.
  [[nodiscard]] std::uint64_t source_address(int rank) const {
    return boards_.record_of(index(rank)).buffers.source;
  }
  // Copies bytes of a mapped buffer of `rank` to `to`. `address`: the address of these bytes in the
  // process of `rank`.
  Status fetch(void* to, int rank, std::uint64_t address, std::uint64_t bytes) const;
  // Returns an address at which this process can load bytes of a mapped buffer of `rank`: in its
  // own mapping of them, or of a copy in `scratch`. `address`: the address of these bytes in the
  // process of `rank`. Null if this process cannot read the bytes.
  [[nodiscard]] const std::byte* find(int rank, std::uint64_t address, std::uint64_t bytes,
                                      std::byte* scratch) const;
  // Copies `bytes` bytes at `from` to the mapped target (receive buffer) of `rank`, at `offset` in
  // it.
  Status write(int rank, std::uint64_t offset, const void* from, std::uint64_t bytes) const;
  // The kStagedBytes bytes of this rank's staged block, a part of its board. In a round on mapped
  // buffers no other rank reads these bytes, so they serve as working memory.
  [[nodiscard]] std::byte* scratch() { return stage(coll::kStagedBytes); }

  // Tells the peers that this rank reads and writes no more of their mapped buffers.
  void finish() { boards_.finish(); }
  // Waits until `rank` has called finish().
  void await_finished(int rank);
  // Ends a round on mapped buffers on this rank: calls finish(), and waits until all other ranks
  // have called finish(). `done`: the status of this rank's copies. Returns the code of the call;
  // raises MPI_ERR_OTHER if a copy of this rank failed.
  int end(Status done);

  // Waits until done() is true: looks a few times, then enters the wait loop.
  template <class Done>
  static void wait_until(Done&& done) {
    constexpr int kFirstLooks = 64;  // cheaper than a step of the wait loop
    for (int look = 0; look < kFirstLooks; ++look) {
      if (done()) return;
      spin_pause();
    }
    arrivals::wait_until_shared(done);
  }

 private:
  std::byte* stage(std::uint64_t bytes) {
    return boards_.stage(bytes, [](auto&& done) { wait_until(done); });
  }
  static std::uint32_t index(int rank) { return static_cast<std::uint32_t>(rank); }
  [[nodiscard]] memory::View view_at(int rank, std::uint64_t address) const;

  Comm& comm_;
  coll::BoardGroup& boards_;
  std::uint64_t bytes_;
  std::uint64_t terms_;
};

}  // namespace mh::mpi::direct
