// SPDX-License-Identifier: BSD-3-Clause
// The type signature of a message: the sizes of its basic elements, in order.
//
// A descriptor is received with the receiver's type. Its bytes must be whole basic elements of that
// (MPICH takes anything else for a truncated message), and the signature is all that sender and
// receiver are sure to have in common.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"

namespace mh::mpi {

// Whether a basic element of a long message of this type ends after so many bytes. Reads the type
// level by level, as far as those bytes go; false if it cannot be read.
bool ends_element(MPI_Datatype type, std::uint64_t bytes);

}  // namespace mh::mpi
