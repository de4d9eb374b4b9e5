// SPDX-License-Identifier: BSD-3-Clause
// A collective that the ranks carry out themselves (coll/board_group.hpp): publishes the record of
// this rank, waits for the records of its peers, and reads and writes their buffers.
//
// Threads: one thread at a time in the collectives of a communicator, as MPI requires. Limit: the
// wait for a peer has no time limit. If a rank dies in a collective, the launcher ends the job.
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

// The communicator of a handle if its ranks can carry out its collectives, else null.
inline Comm* comm_with_boards(MPI_Comm handle) {
  Comm* comm = comms::find(handle);
  if (comm == nullptr) return nullptr;
  if (comm->group == kUnknownGroup) [[unlikely]]
    arrivals::join(*comm);
  return comm->boards ? comm : nullptr;
}

inline bool is_rank(const Comm& comm, int rank) { return rank >= 0 && rank < comm.size; }

// False if MPI_Pcontrol has switched off help on this rank. Other ranks may be switched on, so the
// ranks agree in each round.
inline bool is_switched_on() { return switches.switched_on.load(std::memory_order_relaxed); }

// True if the data of a rank fits its board, and no rank has to read more than kMostStagedReads
// bytes of staged data.
inline bool is_staged(std::uint64_t bytes, const Comm& comm) {
  constexpr std::uint64_t kMostStagedReads = 8 * coll::kStagedBytes;
  return bytes <= coll::kStagedBytes &&
         bytes * static_cast<std::uint64_t>(comm.size) <= kMostStagedReads;
}

class Round {
 public:
  // Begins the communicator's next round. `terms`: further facts that must be equal on all ranks.
  Round(Comm& comm, RoundCall call, std::uint64_t bytes, std::uint32_t terms = 0);

  // Publish this rank's record, with its data staged at stage() or in its own buffers.
  [[nodiscard]] std::byte* stage() { return stage(bytes_); }
  void publish_staged() { boards_.publish_staged(terms_, bytes_); }
  // Null `source` or `target`: the call has no such buffer. False if a peer does not map the
  // buffers; the round is then left to the library.
  bool publish_mapped(const void* source, std::uint64_t source_bytes, const void* target,
                      std::uint64_t target_bytes);
  void publish_library() { boards_.publish_library(terms_); }

  // Waits for the records of all ranks. True if all have published `route`, on the same terms.
  bool all_agree(coll::Route route);
  // Waits for the record of one rank.
  const coll::RoundRecord& await(int rank);
  [[nodiscard]] bool has_come(int rank) const { return boards_.has_come(index(rank)); }
  [[nodiscard]] coll::Route route_of(int rank) const { return boards_.route_of(index(rank)); }
  [[nodiscard]] bool has_terms(const coll::RoundRecord& record) const {
    return has_call(record) && record.bytes == bytes_;
  }
  // True if the record has the terms of this rank's call; the bytes may differ.
  [[nodiscard]] bool has_call(const coll::RoundRecord& record) const {
    return record.terms == terms_;
  }

  // The staged data of a rank whose record has come.
  [[nodiscard]] const std::byte* staged_by(int rank) const {
    return boards_.staged_by(index(rank), boards_.record_of(index(rank)).bytes);
  }

  // The address of a rank's mapped source, in its process.
  [[nodiscard]] std::uint64_t source_address(int rank) const {
    return boards_.record_of(index(rank)).buffers.source;
  }
  // Copies mapped bytes, at an address of a rank's process, to `to`.
  Status fetch(void* to, int rank, std::uint64_t address, std::uint64_t bytes) const;
  // The address of mapped bytes in this process, or of a copy in `scratch`. Null if this process
  // cannot read the bytes.
  [[nodiscard]] const std::byte* find(int rank, std::uint64_t address, std::uint64_t bytes,
                                      std::byte* scratch) const;
  // Copies to a rank's mapped target, from `offset` on.
  Status write(int rank, std::uint64_t offset, const void* from, std::uint64_t bytes) const;
  // In a mapped round: kStagedBytes of memory that no other rank reads.
  [[nodiscard]] std::byte* scratch() { return stage(coll::kStagedBytes); }

  // Tells the peers that this rank reads and writes no more of their mapped buffers.
  void finish() { boards_.finish(); }
  // Waits until a rank has called finish().
  void await_finished(int rank);
  // Ends a mapped round on this rank, and waits until all others have finished. `done`: the status
  // of the copies. Returns the code of the call; raises MPI_ERR_OTHER for a copy that failed.
  int end(Status done);

  // Waits until done() is true.
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
