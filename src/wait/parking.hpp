// SPDX-License-Identifier: BSD-3-Clause
// Light tasks that wait in MPI calls (base/light_tasks.h): a task parks, and its worker runs other
// tasks. A worker that has nothing better to do is the *poller*: it tests the conditions of all
// parked tasks (threads/parking.hpp).
//
// Threads: tasks park on any worker, and may continue on another worker. A process has one poller
// at a time.
#pragma once

#include <atomic>

#include "base/light_tasks.h"
#include "wait/predicate.hpp"

namespace mh::wait {

// Returns the number of OpenMP regions around the caller (omp_get_level).
using RegionDepth = int (*)();

// From now on the tasks of this light-task library may park while they wait in MPI calls. Null: no
// task parks. `depth`: counts the OpenMP regions around a task, which does not park inside of one;
// null: there is no OpenMP.
void set_task_library(const mh_light_tasks* library, RegionDepth depth);

namespace parking {

// The library given to set_task_library(); null: no task parks. relaxed loads suffice: the
// library's functions exist before any task does.
[[gnu::visibility("hidden")]] extern std::atomic<const mh_light_tasks*> task_library;

// True if the calling thread runs a light task.
inline bool is_in_task() {
  const mh_light_tasks* const library = task_library.load(std::memory_order_relaxed);
  return library != nullptr && library->current() != nullptr;
}

// True if the calling task may park. False inside an OpenMP region, whose run time must not see
// another task on its thread. False on the poller, the worker that tests the conditions of all
// parked tasks.
bool may_park();
// Parks the calling task until done() has been true once: its worker runs other tasks meanwhile.
// Precondition: may_park().
void park(detail::Predicate done);

// Makes the calling thread the poller, which tests the conditions of all parked tasks, until
// end_polling(). False: another thread is the poller. True as well if the caller was the poller
// already.
bool begin_polling();
void end_polling();
// True if the calling thread is the poller (begin_polling()), which tests the conditions of parked
// tasks. Its own waits do not park.
bool is_polling();
// Called by the poller (begin_polling()). Tests the conditions of all parked tasks, and wakes the
// tasks whose waits are over. Returns the number of woken tasks.
unsigned poll();

}  // namespace parking
}  // namespace mh::wait
