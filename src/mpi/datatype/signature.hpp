// SPDX-License-Identifier: BSD-3-Clause
// The type signature of a message: the sizes of its basic elements, in order.
//
// An RTS header is received with the receiver's type. The header must consist of whole basic
// elements of that type, since MPICH takes anything else for a truncated message. The sender finds
// out by its own type whether this holds, because sender and receiver have only the signature in
// common for certain. MPI_PACKED is the exception: it matches the elements that were packed, which
// the sender does not know. Thread-safe.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"

namespace mh::mpi {

// True if byte `bytes` of the packed stream of many elements of this type begins a basic element,
// so that the bytes before it are whole basic elements. Reads the type level by level, only as far
// as those bytes; false if the type cannot be read, or if MPI_PACKED is in those bytes.
bool ends_element(MPI_Datatype type, std::uint64_t bytes);

}  // namespace mh::mpi
