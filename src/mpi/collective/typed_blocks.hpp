// SPDX-License-Identifier: BSD-3-Clause
// The buffers of a collective as blocks of a datatype, and their bytes as a packed stream.
//
// Blocks of a datatype with a layout are packed by src/layout. Blocks of another datatype are
// packed by the MPI library, in a message of this rank to itself. Threads: any. Limit:
// kMostBlockBytes a block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/abi.hpp"
#include "mpi/datatype/datatypes.hpp"

namespace mh::mpi::direct {

// The most bytes of a block that the receiver copies straight from the sender's mapped buffer. If
// the block's datatype at sender or receiver has no layout, the block is unpacked by a message of
// this rank to itself, which counts bytes by an int in MPI 3.
inline constexpr std::uint64_t kMostBlockBytes = 1U << 30U;

// A buffer of a collective as blocks of equal length, one behind the other: one for, or from, each
// rank of a communicator. For calls with a single block, only block 0 exists.
struct TypedBlocks {
  void* address;
  MPI_Count count;  // of one block
  MPI_Datatype type;
  std::uint64_t bytes;  // of one block
  bool contiguous;
  bool valid;  // the count and the type are valid

  // True if the MPI library refuses the arguments. A null address is refused only for a contiguous
  // type, because with other types it may be MPI_BOTTOM.
  [[nodiscard]] bool is_refused() const {
    const bool no_address = address == MPI_IN_PLACE || (address == nullptr && contiguous);
    return !valid || (bytes != 0 && no_address);
  }
  // The address of a rank's block; the blocks of lower ranks precede it.
  [[nodiscard]] std::byte* block(int rank) const;
  // The block of `rank` alone, as a TypedBlocks of which it is block 0.
  [[nodiscard]] TypedBlocks only(int rank) const {
    TypedBlocks one = *this;
    one.address = block(rank);
    return one;
  }
};

// The arguments of a call that describe a buffer. On ranks where the call does not use them, the
// program may leave them undefined, such as the receive buffer of MPI_Gather outside the root.
struct BlockArgs {
  const void* address;
  MPI_Count count;
  MPI_Datatype type;
};

inline TypedBlocks typed_blocks(const BlockArgs& args) {
  const auto [address, count, type] = args;
  if (count < 0 || type == MPI_DATATYPE_NULL) return {};
  const datatypes::Info info = datatypes::info(type);
  if (info.size == 0 && !datatypes::is_usable(type)) return {};
  return {.address = const_cast<void*>(address),
          .count = count,
          .type = type,
          .bytes = info.size * static_cast<std::uint64_t>(count),
          .contiguous = info.contiguous,
          .valid = true};
}

// The extent of the blocks' datatype: the distance in bytes between two elements. Called for a
// datatype with gaps.
MPI_Count extent_of(const TypedBlocks& blocks);

// These functions pack the block of `rank` to the memory at `to`, or unpack the block from the
// packed stream at `from`. False: only the MPI library can do so, and it has refused.
bool pack(const TypedBlocks& from, int rank, std::byte* to);
bool unpack(const TypedBlocks& to, int rank, const std::byte* from);

// True if the MPI library accepts `own` and `in_other`, the block of a rank for itself in the two
// buffers of a collective. A library may refuse if both are the same memory.
bool accepts_alias(const TypedBlocks& own, const TypedBlocks& in_other);

// Copies this rank's own block from the send buffer to the receive buffer. Returns an MPI code, and
// calls no error handler.
int copy_own_block(const TypedBlocks& from, const TypedBlocks& to);

}  // namespace mh::mpi::direct
