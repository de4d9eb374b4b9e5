// SPDX-License-Identifier: BSD-3-Clause
// Task collections over MPI. Each rank has many tasks. Work stealing, the durations measured in the
// last iteration, or both spread the tasks over the ranks.
//
//   manyhands/tasks/collection.hpp   the collection: define, add, process, restore
//   manyhands/tasks/config.hpp       settings, statistics
//   manyhands/tasks/mpi.hpp          create() over an MPI communicator
//   manyhands/tasks/network.hpp      the network interface of a collection
//
// Compile an application with its MPI's mpicxx and link it with -lmanyhands-tasks, which makes no
// MPI call itself. The guide, with a complete program, is docs/tasks.md.
#pragma once

#include "manyhands/tasks/collection.hpp"  // IWYU pragma: export
#include "manyhands/tasks/config.hpp"      // IWYU pragma: export
#include "manyhands/tasks/mpi.hpp"         // IWYU pragma: export
#include "manyhands/tasks/network.hpp"     // IWYU pragma: export
