// SPDX-License-Identifier: BSD-3-Clause
// Looks for the library of light tasks at the start, and lets its tasks wait in MPI by the
// functions of base/light_tasks.h.
//
// A task *parks* if its worker runs other tasks while the task waits in MPI. Tasks park at
// MPI_THREAD_MULTIPLE only, because each may continue on another thread. Tasks do not park where a
// waiting call keeps state of its thread: with a profile or a trace (MH_PROFILE, MH_TRACE), and in
// shared loops (in_loop.hpp). MH_WAIT_TOGETHER=0 turns parking off, too.
#include "base/light_tasks.h"

#include <dlfcn.h>

#include "mpi/job/config.hpp"
#include "mpi/lifecycle/parts.hpp"
#include "mpi/profile/profile.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {
namespace {

template <class Function>
Function* find_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void park_light_tasks() {
  if (!config.multiple || config.sharing_loops || profile::is_wanted()) return;
  auto* const find = find_function<mh_light_tasks_function>(MH_LIGHT_TASKS_NAME);
  if (find == nullptr) return;
  const mh_light_tasks* const library = find(MH_LIGHT_TASKS_VERSION, &wait::parked_waits());
  if (library == nullptr) return;
  if (config.ranks > 1) library->share_cores(wait::cores());
  wait::set_task_library(library, find_function<int()>("omp_get_level"));
}

}  // namespace mh::mpi
