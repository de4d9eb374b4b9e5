// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/collective/typed_blocks.hpp"

#include <cstring>

#include "mpi/job/config.hpp"
#include "mpi/next.hpp"
#include "mpi/tags.hpp"

namespace mh::mpi::direct {

std::byte* TypedBlocks::block(int rank) const {
  auto* const first = static_cast<std::byte*>(address);
  if (contiguous) return first + static_cast<std::uint64_t>(rank) * bytes;
  if (rank == 0) return first;
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  real.Type_get_extent(type, &lower, &extent);
  return first + static_cast<MPI_Aint>(rank) * static_cast<MPI_Aint>(count) * extent;
}

bool pack(const TypedBlocks& from, int rank, std::byte* to) {
  const std::byte* const at = from.block(rank);
  if (from.contiguous) {
    std::memcpy(to, at, from.bytes);
    return true;
  }
  int position = 0;
  return real.Pack(at, static_cast<int>(from.count), from.type, to, static_cast<int>(from.bytes),
                   &position, config.self_comm) == MPI_SUCCESS;
}

bool unpack(const TypedBlocks& to, int rank, const std::byte* from) {
  std::byte* const at = to.block(rank);
  if (to.contiguous) {
    std::memcpy(at, from, to.bytes);
    return true;
  }
  int position = 0;
  return real.Unpack(from, static_cast<int>(to.bytes), &position, at, static_cast<int>(to.count),
                     to.type, config.self_comm) == MPI_SUCCESS;
}

bool accepts_alias(const TypedBlocks& own, const TypedBlocks& in_other) {
  if (own.bytes == 0 || own.address != in_other.address) return true;
  return by_count::Gather(real, own.address, own.count, own.type, in_other.address, in_other.count,
                          in_other.type, 0, config.self_comm) == MPI_SUCCESS;
}

int copy_own_block(const TypedBlocks& from, const TypedBlocks& to, const Comm& comm) {
  if (from.contiguous && to.contiguous) {
    if (from.bytes > to.bytes) return MPI_ERR_TRUNCATE;
    if (from.address != to.address) std::memmove(to.address, from.address, from.bytes);
    return MPI_SUCCESS;
  }
  const int tag = tags::kOwnBlocks[comm.group];
  return by_count::Sendrecv(real, from.address, from.count, from.type, 0, tag, to.address, to.count,
                            to.type, 0, tag, config.self_comm, MPI_STATUS_IGNORE);
}

}  // namespace mh::mpi::direct
