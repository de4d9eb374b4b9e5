// SPDX-License-Identifier: BSD-3-Clause
// MPI_Pack and MPI_Unpack by the layout engine, where that is the faster way.
//
// The packed stream of the MPI libraries at hand is that of the engine (tests/mpi/layouts). A
// type's first call is the library's own: only if it succeeds is the type read, so a handle that is
// wrong or not committed gets the library's error. Whatever else looks odd (no room, negative
// numbers, an unknown communicator, MPI_BOTTOM) is left to the library as well, and so are short
// streams, types without gaps, those of blocks that the library is as quick with while a cache
// holds them, and all of a program that has loaded an accelerator's run time. MPI_Pack_external
// stays the library's: its bytes are in another order. Any thread.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"

namespace mh::mpi::packing {

// Shorter streams are the library's, and so are those of blocks that are longer on average (bytes),
// unless no cache holds them (layout::Home::memory).
// Open MPI is as fast with long blocks, MPICH with none: docs/decisions.md.
#if defined(MH_ABI_OPENMPI)
inline constexpr std::uint64_t kLeastBytes = 2048;
inline constexpr std::uint64_t kLongestBlock = 24;
#else
inline constexpr std::uint64_t kLeastBytes = 512;
inline constexpr std::uint64_t kLongestBlock = ~std::uint64_t{0};
#endif

// MPI_Type_free: the handle may come back as another type.
void forget(MPI_Datatype type);

}  // namespace mh::mpi::packing
