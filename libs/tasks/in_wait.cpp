// SPDX-License-Identifier: BSD-3-Clause
// Tasks that run while the task under way waits in an MPI call, on its stack.
//
// They come from the rank's own deque, which neighbours can steal from as before; nothing is stolen
// here, and no vote is cast: the task under way keeps its rank active. A task that runs here and
// waits itself has nothing run in its wait, so at most two tasks of a rank are under way. What is
// measured of the task under way leaves out those that ran meanwhile.
#include <new>

#include "base/clock.hpp"
#include "tasks/core.hpp"

namespace mh::tasks::detail {

// Answers other nodes on the way.
bool CollectionCore::has_for_wait() {
  if (inside_ != Inside::task || placing_ || !failure_.ok()) return false;
  if (serves_ && ticks() >= look_ticks_) {
    // What it calls of MPI may wait, too.
    inside_ = Inside::task_in_wait;
    serve();
    inside_ = Inside::task;
  }
  return feed() && deque_.size() != 0;
}

void CollectionCore::run_in_wait() {
  if (!make_room_in_wait()) return;
  TaskBytes task = in_wait_.spare();
  if (!deque_.get(task)) return;
  const std::uint64_t begin = ticks();
  const bool is_kept = call_function(task, Inside::task_in_wait);
  const std::uint64_t taken = ticks() - begin;
  wait_ticks_ += taken;
  ++statistics_.in_waits;
  if (is_kept) in_wait_executed_.push_back({in_wait_.commit(), Bin(seconds(taken))});
  count(taken);
}

// For one more task. Without memory for it the task stays where it is.
bool CollectionCore::make_room_in_wait() {
  try {
    in_wait_.spare();
    if (in_wait_executed_.size() == in_wait_executed_.capacity()) {
      in_wait_executed_.reserve(2 * in_wait_executed_.size() + 1);
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// The task under way has ended.
void CollectionCore::keep_those_of_wait() {
  for (const auto& timed : in_wait_executed_) {
    executed_.push_back({arena_.add(in_wait_.at(timed.task).bytes), timed.bin});
  }
  in_wait_executed_.clear();
  in_wait_.clear();
}

}  // namespace mh::tasks::detail
