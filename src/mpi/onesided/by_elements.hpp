// SPDX-License-Identifier: BSD-3-Clause
// Reductions that only the MPI library computes, on targets of other nodes.
//
// The target cannot ask its library: handles are other words there. So each element is fetched,
// reduced here, and swapped in if it is still what was fetched; atomic as any other accumulate, and
// slow. Limit: elements of kMostSwapped bytes (onesided/executor.hpp).
#pragma once

#include "mpi/onesided/windows.hpp"
#include "onesided/operation.hpp"

namespace mh::mpi::rma {

// With all ends of the task, and its reducer. Done when it returns.
Status reduce_by_elements(Win& win, const onesided::Task& task);

}  // namespace mh::mpi::rma
