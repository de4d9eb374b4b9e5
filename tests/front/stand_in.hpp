// SPDX-License-Identifier: BSD-3-Clause
// The generated stand-in wrappers, which replace Manyhands behind the front in tests, call these
// functions: count() at each MPI call, report() when the program ends MPI.
//
// With MH_TEST_COUNTS=PREFIX, report() writes the file PREFIX.PID: a line with the name of the ABI,
// then a line "MPI_X COUNT" for each call that was made.
#pragma once

#include <cstdint>

namespace mh::mpi::stand_in {

void count(std::uint32_t call);
void report();

}  // namespace mh::mpi::stand_in
