// SPDX-License-Identifier: BSD-3-Clause
// What a rank does while it waits: the wait loop's view of this process (wait/wait.hpp calls it).
//
// The order of work is that of wait.hpp; each step here is one line of services. One thread of the
// rank at a time is in a step, except where wait.hpp says otherwise.
#pragma once

#include "wait/wait.hpp"

namespace mh::mpi {

// Of this process; needs its services.
wait::Work& node_work();

}  // namespace mh::mpi
