// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for the services of libmanyhands.so to task collections (base/idle_work.h). The test
// itself decides when they act.
#pragma once

#include <atomic>

#include "base/idle_work.h"

namespace mh::tasks::test {

// The last offer of tasks that this thread has made to waits in MPI calls.
inline thread_local mh_offer t_offer{};
// True while help() has begun a wait on this thread that has not ended.
inline thread_local bool t_helps = false;
// The number of calls of help(), by which workers without tasks help other ranks.
inline std::atomic<int> g_helped{0};

// Plays what a wait in an MPI call does between two polls: runs an offered task, if there is any.
// Returns true if a task ran.
inline bool look_around() {
  const mh_offer tasks = t_offer;
  if (tasks.run == nullptr || tasks.has(tasks.of) == 0) return false;
  tasks.run(tasks.of);
  return true;
}

}  // namespace mh::tasks::test
