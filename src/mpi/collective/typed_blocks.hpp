// SPDX-License-Identifier: BSD-3-Clause
// The buffers of a call, by datatype, and their bytes as a packed stream.
//
// The layout engine reads the datatypes. A type without a layout goes through a message of this
// rank to itself. Threads: any. Limit: kMostPacked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/abi.hpp"
#include "mpi/datatype/datatypes.hpp"

namespace mh::mpi::direct {

// The most bytes of data whose type has no layout: in libraries of MPI 3 a message counts bytes by
// an int.
inline constexpr std::uint64_t kMostPacked = 1U << 30U;

// Elements of a datatype for, or from, each rank of a communicator.
struct TypedBlocks {
  void* address;
  MPI_Count count;  // of one block
  MPI_Datatype type;
  std::uint64_t bytes;  // of one block
  bool contiguous;
  bool valid;  // the count and the type are valid

  // True if the library refuses the arguments. With a type that is not contiguous, null may be
  // MPI_BOTTOM.
  [[nodiscard]] bool is_refused() const {
    const bool no_address = address == MPI_IN_PLACE || (address == nullptr && contiguous);
    return !valid || (bytes != 0 && no_address);
  }
  // The address of a rank's block; the blocks of lower ranks precede it.
  [[nodiscard]] std::byte* block(int rank) const;
  // The block of a rank, alone.
  [[nodiscard]] TypedBlocks only(int rank) const {
    TypedBlocks one = *this;
    one.address = block(rank);
    return one;
  }
};

// A buffer as in the arguments of a call. A rank may leave arguments undefined that it does not
// use.
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

// The distance between elements of a type with gaps.
MPI_Count extent_of(const TypedBlocks& blocks);

// Move one block to and from a stream. False: the library refuses.
bool pack(const TypedBlocks& from, int rank, std::byte* to);
bool unpack(const TypedBlocks& to, int rank, const std::byte* from);

// True if the library accepts that a rank's own block is the same memory in both buffers.
bool accepts_alias(const TypedBlocks& own, const TypedBlocks& in_other);

// Copies this rank's own block in a collective. Returns an MPI code, and raises no error.
int copy_own_block(const TypedBlocks& from, const TypedBlocks& to);

}  // namespace mh::mpi::direct
