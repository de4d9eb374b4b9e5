// SPDX-License-Identifier: BSD-3-Clause
// Datatypes that the program has freed while a receive under way still needs them to place its
// message. (The library would keep them alive for its own request only.)
//
// Each is freed for the program once no receive uses it. Any thread.
#pragma once

#include "mpi/abi.hpp"

namespace mh::mpi::parked_types {

// Instead of MPI_Type_free, for a type that pending receives use.
void park(MPI_Datatype type);
// Those that no receive uses any more.
void free_unused();
// Before the library ends: all of them.
void stop();

}  // namespace mh::mpi::parked_types
