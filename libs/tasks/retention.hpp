// SPDX-License-Identifier: BSD-3-Clause
// The rules of a collection between two iterations: whether ranks may steal, and the order in which
// a rank gets its tasks back. The library and the simulator use the same rules.
//
// Retention (section 6 of the paper that tasks/config.hpp names): a rank begins with the tasks that
// it ran in the last iteration. The longest task comes first, unlike in the paper, so the tasks at
// the end of an iteration are short. Threads: the caller's.
#pragma once

#include <algorithm>
#include <vector>

#include "manyhands/tasks/config.hpp"
#include "tasks/balance.hpp"

namespace mh::tasks {

// Returns the balancer of the first iteration, in which no durations are known: `retain` in place
// of `automatic`.
inline Balancer first_balancer(Balancer configured) {
  return configured == Balancer::automatic ? Balancer::retain : configured;
}
inline bool moves_tasks(Balancer used) {
  return used == Balancer::plb_central || used == Balancer::plb_tree;
}
inline Scheme scheme_of(Balancer used) {
  return used == Balancer::plb_central ? Scheme::central : Scheme::tree;
}
// True: ranks may steal in an iteration with the balancer `used`. `measured`: durations are known,
// from an earlier iteration.
inline bool may_steal(Balancer used, bool measured) {
  return used != Balancer::none && !(moves_tasks(used) && measured);
}

// Puts the tasks in the order in which restore() adds them to the deque, which returns the newest
// first. Balancer `none`: reversed, so that the tasks run in the same order as in the last
// iteration. `steal`: unchanged. All other balancers: the longest last, so that the longest runs
// first.
template <class Task>
void order_restored(Balancer used, std::vector<Timed<Task>>& tasks) {
  if (used == Balancer::none) {
    std::ranges::reverse(tasks);
  } else if (used != Balancer::steal) {
    std::ranges::stable_sort(tasks, {}, [](const auto& timed) { return timed.bin.seconds(); });
  }
}

template <class Task>
double load_of(const std::vector<Timed<Task>>& tasks) {
  double load = 0;
  for (const auto& timed : tasks) load += timed.bin.seconds();
  return load;
}

}  // namespace mh::tasks
