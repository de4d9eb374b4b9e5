// SPDX-License-Identifier: BSD-3-Clause
// Called by the generated stand-in wrappers: counters, written when the program ends MPI.
//
// MH_TEST_COUNTS=prefix: each process writes lines "MPI_X count" to prefix.<pid>, after a first
// line with the name of the ABI.
#pragma once

#include <cstdint>

namespace mh::mpi::stand_in {

void count(std::uint32_t call);
void report();

}  // namespace mh::mpi::stand_in
