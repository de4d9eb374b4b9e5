// SPDX-License-Identifier: BSD-3-Clause
// Tasks that wait in MPI calls, where libmanyhands.so is in the process (base/light_tasks.h). Such
// a task *parks*: it sleeps like a task in wait(), and idle workers call that library, which tests
// the conditions of all parked tasks.
//
// Without that library no task parks, and a worker pays one load for each turn around its sets.
#pragma once

#include "base/light_tasks.h"

namespace mh::ult::detail {

// The functions for workers. Not null if a task has parked.
const mh_parked_waits* parked_waits();

}  // namespace mh::ult::detail
