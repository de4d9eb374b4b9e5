// SPDX-License-Identifier: BSD-3-Clause
// MPI_Allgather and MPI_Alltoall as rounds (direct.hpp): every rank reads its blocks from the
// staged data or the mapped buffers of its peers.
#include <cstring>

#include "mpi/collective/direct.hpp"
#include "mpi/collective/round.hpp"
#include "mpi/collective/typed_blocks.hpp"
#include "mpi/job/config.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::direct {
namespace {

// The blocks of a call on this rank, of `bytes` bytes each. `source`: the data that this rank sends
// to its peers. `target`: one place for the block of each rank, its own included.
struct Blocks {
  const std::byte* source;
  std::byte* target;
  std::uint64_t bytes;
  bool per_peer;  // a block of its own for each peer (alltoall), or one block for all (allgather)

  [[nodiscard]] std::uint64_t source_offset(int to) const {
    return per_peer ? static_cast<std::uint64_t>(to) * bytes : 0;
  }
  [[nodiscard]] std::byte* target_of(int from) const {
    return target + static_cast<std::uint64_t>(from) * bytes;
  }
  [[nodiscard]] std::uint64_t source_bytes(int ranks) const {
    return per_peer ? static_cast<std::uint64_t>(ranks) * bytes : bytes;
  }
};

// The offset of the block for rank `to` in the data that rank `from` has staged. In MPI_Alltoall a
// rank does not stage the block for itself.
std::uint64_t staged_offset(const Blocks& blocks, int from, int to) {
  return blocks.per_peer ? static_cast<std::uint64_t>(to - (to > from ? 1 : 0)) * blocks.bytes : 0;
}

void copy_own(const Blocks& blocks, const Comm& comm) {
  const std::byte* from = blocks.source + blocks.source_offset(comm.rank);
  std::byte* to = blocks.target_of(comm.rank);
  if (from != to) std::memmove(to, from, blocks.bytes);
}

void stage(Round& round, const Blocks& blocks, const Comm& comm) {
  std::byte* const staged = round.stage();
  if (!blocks.per_peer) {
    std::memcpy(staged, blocks.source, blocks.bytes);
  } else {
    const std::uint64_t before = blocks.source_offset(comm.rank);
    std::memcpy(staged, blocks.source, before);
    std::memcpy(staged + before, blocks.source + before + blocks.bytes,
                blocks.source_bytes(comm.size) - before - blocks.bytes);
  }
  round.publish_staged();
}

CallResult move_staged(Round& round, const Blocks& blocks, const Comm& comm) {
  if (!round.all_agree(coll::Route::staged)) return std::nullopt;
  copy_own(blocks, comm);
  for (int i = 1; i < comm.size; ++i) {
    const int peer = (comm.rank + i) % comm.size;
    std::memcpy(blocks.target_of(peer),
                round.staged_by(peer) + staged_offset(blocks, peer, comm.rank), blocks.bytes);
  }
  return MPI_SUCCESS;
}

CallResult move_mapped(Round& round, const Blocks& blocks, const Comm& comm) {
  if (!round.all_agree(coll::Route::mapped)) return std::nullopt;
  Status done;
  copy_own(blocks, comm);
  for (int i = 1; i < comm.size && done; ++i) {
    const int peer = (comm.rank + i) % comm.size;
    done = round.fetch(blocks.target_of(peer), peer,
                       round.source_address(peer) + blocks.source_offset(comm.rank), blocks.bytes);
  }
  return round.end(done);
}

// True if this rank's blocks in the send buffer (`from`) and in the receive buffer (`to`) are
// contiguous and equally long, so that they can be copied as bytes.
bool are_plain(const TypedBlocks& from, const TypedBlocks& to) {
  return from.contiguous && to.contiguous && from.bytes == to.bytes;
}

// True if the MPI library accepts an MPI_Alltoall whose two buffers are the same, with data, equal
// counts and one type. MPICH refuses it.
bool accepts_one_buffer_in_alltoall() {
  static const bool accepted = [] {
    int data = 0;
    return real.Alltoall(&data, 1, MPI_INT, &data, 1, MPI_INT, config.self_comm) == MPI_SUCCESS;
  }();
  return accepted;
}

CallResult exchange(Comm& comm, RoundCall call, const Blocks& blocks, bool plain) {
  if (blocks.bytes == 0) return std::nullopt;
  const auto ranks = static_cast<std::uint64_t>(comm.size);
  const std::uint64_t staged = blocks.per_peer ? blocks.bytes * (ranks - 1) : blocks.bytes;
  const bool stages = is_staged(staged, comm);
  if (!stages && !config.heaps_mapped) return std::nullopt;
  Round round(comm, call, stages ? staged : blocks.bytes);
  if (!plain || !is_switched_on()) {
    round.publish_library();
  } else if (stages) {
    stage(round, blocks, comm);
  } else {
    round.publish_mapped(blocks.source, blocks.source_bytes(comm.size), nullptr, 0);
  }
  return stages ? move_staged(round, blocks, comm) : move_mapped(round, blocks, comm);
}

}  // namespace

CallResult allgather(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                     MPI_Count out_count, MPI_Datatype out_type, MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr) return std::nullopt;
  const bool in_place = in == MPI_IN_PLACE;
  const TypedBlocks to = typed_blocks({out, out_count, out_type});
  const TypedBlocks from = in_place ? to : typed_blocks({in, in_count, in_type});
  if (to.is_refused() || from.is_refused()) return CallResult::refused();
  Blocks blocks{.source = static_cast<const std::byte*>(from.address),
                .target = static_cast<std::byte*>(out),
                .bytes = to.bytes,
                .per_peer = false};
  const std::byte* own = to.block(comm->rank);
  if (in_place) blocks.source = own;
  if (!in_place && blocks.source == own && !accepts_alias(from, to.only(comm->rank)))
    return CallResult::refused();
  return exchange(*comm, RoundCall::allgather, blocks, are_plain(from, to));
}

CallResult alltoall(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                    MPI_Count out_count, MPI_Datatype out_type, MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr || in == MPI_IN_PLACE) return std::nullopt;
  const TypedBlocks to = typed_blocks({out, out_count, out_type});
  const TypedBlocks from = typed_blocks({in, in_count, in_type});
  if (to.is_refused() || from.is_refused()) return CallResult::refused();
  const bool one_buffer = in == out && from.bytes != 0;
  if (one_buffer && in_count == out_count && in_type == out_type &&
      !accepts_one_buffer_in_alltoall())
    return CallResult::refused();
  const Blocks blocks{.source = static_cast<const std::byte*>(in),
                      .target = static_cast<std::byte*>(out),
                      .bytes = to.bytes,
                      .per_peer = true};
  return exchange(*comm, RoundCall::alltoall, blocks, are_plain(from, to) && !one_buffer);
}

}  // namespace mh::mpi::direct
