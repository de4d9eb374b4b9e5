// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/collective/typed_blocks.hpp"

#include <cstring>

#include "layout/pack.hpp"
#include "mpi/compat/self_message.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/job/config.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::direct {
namespace {

layout::Elements elements_of(const TypedBlocks& blocks, int rank, const layout::Layout* layout) {
  return {.layout = layout,
          .count = static_cast<std::uint64_t>(blocks.count),
          .base = layout::address_of(blocks.block(rank))};
}

}  // namespace

MPI_Count extent_of(const TypedBlocks& blocks) {
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  real.Type_get_extent(blocks.type, &lower, &extent);
  return extent;
}

std::byte* TypedBlocks::block(int rank) const {
  auto* const first = static_cast<std::byte*>(address);
  if (contiguous) return first + static_cast<std::uint64_t>(rank) * bytes;
  return rank == 0 ? first : first + rank * count * extent_of(*this);
}

bool pack(const TypedBlocks& from, int rank, std::byte* to) {
  if (from.contiguous) {
    std::memcpy(to, from.block(rank), from.bytes);
    return true;
  }
  if (const layout::LayoutPtr layout = layouts::of(from.type)) {
    layout::pack_range(elements_of(from, rank, layout.get()), {0, from.bytes}, to);
    return true;
  }
  return send_to_self(from.block(rank), from.count, from.type, to,
                      static_cast<MPI_Count>(from.bytes), MPI_BYTE) == MPI_SUCCESS;
}

bool unpack(const TypedBlocks& to, int rank, const std::byte* from) {
  if (to.contiguous) {
    std::memcpy(to.block(rank), from, to.bytes);
    return true;
  }
  if (const layout::LayoutPtr layout = layouts::of(to.type)) {
    layout::unpack_range(elements_of(to, rank, layout.get()), {0, to.bytes}, from);
    return true;
  }
  return send_to_self(from, static_cast<MPI_Count>(to.bytes), MPI_BYTE, to.block(rank), to.count,
                      to.type) == MPI_SUCCESS;
}

bool accepts_alias(const TypedBlocks& own, const TypedBlocks& in_other) {
  if (own.bytes == 0 || own.address != in_other.address) return true;
  return by_count::Gather(real, own.address, own.count, own.type, in_other.address, in_other.count,
                          in_other.type, 0, config.self_comm) == MPI_SUCCESS;
}

int copy_own_block(const TypedBlocks& from, const TypedBlocks& to) {
  if (!from.contiguous || !to.contiguous)
    return send_to_self(from.address, from.count, from.type, to.address, to.count, to.type);
  if (from.bytes > to.bytes) return MPI_ERR_TRUNCATE;
  if (from.address != to.address) std::memmove(to.address, from.address, from.bytes);
  return MPI_SUCCESS;
}

}  // namespace mh::mpi::direct
