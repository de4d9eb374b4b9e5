// SPDX-License-Identifier: BSD-3-Clause
// What the wait loop does for persistent sends that may be described (persistent.cpp).
#pragma once

namespace mh::mpi {

// Part of the wait loop: started ones that were not described are sent as they are, and this rank
// sends the completion itself when that is done; freed ones are given back when they are over.
void progress_persistent();
// Before the node's communicator is freed.
void stop_persistent();

}  // namespace mh::mpi
