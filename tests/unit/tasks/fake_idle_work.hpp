// SPDX-License-Identifier: BSD-3-Clause
// libmanyhands.so as the task library sees it (base/idle_work.h): what it does is the test's.
#pragma once

#include <atomic>

#include "base/idle_work.h"

namespace mh::tasks::test {

// What this thread has offered last.
inline thread_local mh_offer t_offer{};
// This thread is in a wait that help() has begun.
inline thread_local bool t_helps = false;
// Calls of help() so far.
inline std::atomic<int> g_helped{0};

// What a wait in an MPI call does between two looks. True if a task ran.
inline bool look_around() {
  const mh_offer tasks = t_offer;
  if (tasks.run == nullptr || tasks.has(tasks.of) == 0) return false;
  tasks.run(tasks.of);
  return true;
}

}  // namespace mh::tasks::test
