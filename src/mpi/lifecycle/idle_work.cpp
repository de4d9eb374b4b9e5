// SPDX-License-Identifier: BSD-3-Clause
// The functions that a variant of libmanyhands.so offers to task libraries by base/idle_work.h. A
// thread of a task library does steps of the wait loop while it has no task. With MH_TASKS_IN_WAIT,
// a thread that waits in an MPI call runs tasks.
//
// Active from MPI_Init to MPI_Finalize. Thread-safe. A thread that offers tasks is in no
// intercepted call at the time.
#include "base/idle_work.h"

#include "base/settings.hpp"
#include "mpi/calls/in_loop.hpp"
#include "mpi/front/entry.hpp"
#include "mpi/job/switches.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {
namespace {

mh_offer offer_tasks(mh_offer tasks) {
  if (!switches.active || !settings().tasks_in_wait) return {};
  in_loop::expect_threads();
  const wait::TaskOffer before =
      wait::offer_tasks({.has = tasks.has, .run = tasks.run, .of = tasks.of});
  return {.has = before.has, .run = before.run, .of = before.of};
}

}  // namespace

const mh_idle_work* idle_work() {
  static constexpr mh_idle_work kWork{.help = []() -> int { return wait::help_once() ? 1 : 0; },
                                      .end_help = [] { wait::end_help(); },
                                      .offer = offer_tasks};
  return &kWork;
}

}  // namespace mh::mpi
