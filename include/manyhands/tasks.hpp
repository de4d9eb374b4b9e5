// SPDX-License-Identifier: BSD-3-Clause
// Task collections over MPI: tasks of which each rank has many, spread by work stealing or by what
// was measured the last time, or by both.
//
//   manyhands/tasks/collection.hpp   the collection: define, add, process, restore
//   manyhands/tasks/config.hpp       settings, statistics
//   manyhands/tasks/mpi.hpp          create() over an MPI communicator
//   manyhands/tasks/network.hpp      what a collection needs of the network
//
// An application is compiled with its MPI's mpicxx and linked with -lmanyhands-tasks, which knows
// no MPI. The guide, with a complete program, is docs/tasks.md.
#pragma once

#include "manyhands/tasks/collection.hpp"  // IWYU pragma: export
#include "manyhands/tasks/config.hpp"      // IWYU pragma: export
#include "manyhands/tasks/mpi.hpp"         // IWYU pragma: export
#include "manyhands/tasks/network.hpp"     // IWYU pragma: export
