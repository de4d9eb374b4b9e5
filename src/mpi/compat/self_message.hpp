// SPDX-License-Identifier: BSD-3-Clause
// A copy between two datatypes by a message from this rank to itself, for datatypes without a
// layout, which only the MPI library can read.
#pragma once

#include "mpi/abi.hpp"

namespace mh::mpi {

// Copies `count` elements of `type` to at most `room` elements of `to_type`. Unlike MPI_Pack, a
// message accepts MPI_BOTTOM in every library, and an incomplete last element. Returns the MPI
// library's code. Any thread may call; the process makes one copy at a time.
int send_to_self(const void* from, MPI_Count count, MPI_Datatype type, void* to, MPI_Count room,
                 MPI_Datatype to_type);

}  // namespace mh::mpi
