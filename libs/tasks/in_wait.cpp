// SPDX-License-Identifier: BSD-3-Clause
// Tasks that run on the stack of a task that waits in an MPI call (MH_TASKS_IN_WAIT=1).
//
// The tasks come from the rank's own deque, from which other ranks can still steal. The rank
// meanwhile neither steals nor votes for the end of process(), because the waiting task keeps it
// active. No task runs in the wait of a task that runs in a wait, so at most two tasks of a rank
// are under way. The measured duration of the waiting task excludes the tasks that ran meanwhile.
#include <new>

#include "base/clock.hpp"
#include "tasks/core.hpp"

namespace mh::tasks::detail {

// Called by the wait loop of libmanyhands.so. True: the rank has a task to run in the wait. The
// call also answers steal requests of other nodes.
bool CollectionCore::has_for_wait() {
  if (inside_ != Inside::task || placing_ || !failure_.ok()) return false;
  if (serves_ && ticks() >= look_ticks_) {
    // serve() makes MPI calls, which may wait, too. No task may run in those waits, so inside_ says
    // during serve() that a task runs in a wait: has_for_wait() then returns false.
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

// Reserves the memory to record one more task for restore(). False: no memory is left, and the task
// stays in the deque.
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

// Records for restore() the tasks that ran in waits of the current task. Call after the current
// task has ended.
void CollectionCore::keep_those_of_wait() {
  for (const auto& timed : in_wait_executed_) {
    keep({arena_.add(in_wait_.at(timed.task).bytes), timed.bin});
  }
  in_wait_executed_.clear();
  in_wait_.clear();
}

}  // namespace mh::tasks::detail
