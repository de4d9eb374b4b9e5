// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for libmanyhands.so (base/idle_work.h), which the test itself drives.
#pragma once

#include <atomic>

#include "base/idle_work.h"

namespace mh::tasks::test {

// The last offer of this thread.
inline thread_local mh_offer t_offer{};
// True: help() has begun a wait on this thread, which has not ended.
inline thread_local bool t_helps = false;
// The number of calls of help().
inline std::atomic<int> g_helped{0};

// Does the step that a wait in an MPI call takes between two polls. Returns true if a task ran.
inline bool look_around() {
  const mh_offer tasks = t_offer;
  if (tasks.run == nullptr || tasks.has(tasks.of) == 0) return false;
  tasks.run(tasks.of);
  return true;
}

}  // namespace mh::tasks::test
