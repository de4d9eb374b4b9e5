// SPDX-License-Identifier: BSD-3-Clause
// MPI_Pack and MPI_Unpack by the layout engine, where that is the faster way.
//
// The packed stream of the MPI libraries at hand is that of the engine (tests/mpi/layouts). A type's
// first call is the library's own: only if it succeeds is the type read, so a handle that is wrong
// or not committed gets the library's error. Whatever else looks odd (no room, negative numbers, an
// unknown communicator, MPI_BOTTOM) is left to the library as well, and so are short streams, types
// without gaps, and all of a program that has loaded an accelerator's run time. Any thread.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"

namespace mh::mpi::packing {

// Below, the library is as fast or faster: docs/decisions.md.
inline constexpr std::uint64_t kLeastBytes = 1024;

// MPI_Type_free: the handle may come back as another type.
void forget(MPI_Datatype type);

}  // namespace mh::mpi::packing
