// SPDX-License-Identifier: BSD-3-Clause
// Tasks that wait in MPI calls of libmanyhands.so (base/light_tasks.h). Such a task *parks*: the
// task sleeps as in wait(), and idle workers call libmanyhands.so, which tests the conditions of
// all parked tasks.
//
// Without libmanyhands.so no task parks. A worker then pays one load for each search of its sets of
// ready tasks.
#pragma once

#include "base/light_tasks.h"

namespace mh::ult::detail {

// Returns the functions of libmanyhands.so that workers call; nullptr: libmanyhands.so is not in
// the process or has not called yet. Never nullptr once a task has parked.
const mh_parked_waits* parked_waits();

}  // namespace mh::ult::detail
