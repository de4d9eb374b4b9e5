// SPDX-License-Identifier: BSD-3-Clause
// Which cores a rank lends and borrows: its helpers, its lender, its workers, its shared loops.
//
// Called by bootstrap.cpp alone.
#pragma once

#include "wait/wait.hpp"

namespace mh::mpi::cores {

// This rank's waits lend its core, and others lend theirs to its messages on pipelines and its
// loops.
void share();
// Takes back all that share() made.
void take_back();

// How waits of this rank behave on this machine.
wait::Rules rules();

}  // namespace mh::mpi::cores
