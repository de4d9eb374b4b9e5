// SPDX-License-Identifier: BSD-3-Clause
// MPI_Pack and MPI_Unpack by the layout engine, where that is the faster way.
//
// The packed stream of the MPI libraries at hand is that of the engine (tests/mpi/layouts). A
// type's first call is the library's own: only if it succeeds is the type read, so a handle that is
// wrong or not committed gets the library's error. Whatever else looks odd (no room, negative
// numbers, an unknown communicator, MPI_BOTTOM) is left to the library as well, and so are short
// streams, types without gaps, those of blocks that the library is as quick with, and all of a
// program that has loaded an accelerator's run time. MPI_Pack_external
// stays the library's: its bytes are in another order. Any thread.
#pragma once

#include <cstdint>

#include "base/cacheline.hpp"
#include "mpi/abi.hpp"

namespace mh::mpi::packing {

// The shortest stream (bytes) that the engine is faster with, of blocks that are so long on
// average. Open MPI is as fast with blocks of less than a line, and quick with few that are longer;
// MPICH with none: docs/decisions.md.
constexpr std::uint64_t least_bytes([[maybe_unused]] std::uint64_t block) {
#if defined(MH_ABI_OPENMPI)
  if (block <= 24) return 2048;
  return block < kCacheLine ? ~std::uint64_t{0} : 8192;
#else
  return 512;
#endif
}

// MPI_Type_free: the handle may come back as another type.
void forget(MPI_Datatype type);

}  // namespace mh::mpi::packing
