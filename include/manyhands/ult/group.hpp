// SPDX-License-Identifier: BSD-3-Clause
// A group joins many child tasks at once, with one counter instead of a handle (class Task) for
// each child.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

#include "manyhands/ult/task.hpp"

namespace mh::ult {
namespace detail {

// The counter of a group. `left` starts at 0. Each child that the parent does not run itself
// decrements `left` at its end, and wait() adds the number of such children. So `left` comes back
// to 0 once: by the addition in wait(), or by the decrement of the last child, which then wakes the
// parent.
struct GroupCounter {
  std::atomic<std::int64_t> left{0};
  std::int64_t spawned = 0;             // parent only
  std::int64_t run_by_parent = 0;       // parent only, in wait()
  TaskRecord* parent = nullptr;         // written before the first child is published
  std::atomic<bool> has_thrown{false};  // the first child that sets it may write `thrown`
  std::exception_ptr thrown;            // the writer's decrement of `left` publishes it
  std::atomic<bool> refused{false};     // a child never ran: no stack could be mapped
};
MH_ULT_API void wait(GroupCounter& group) noexcept;
// begin_here() is called before, and end_here() after, a child that its parent runs itself in
// spawn(), because no task slot was free.
MH_ULT_API void begin_here() noexcept;
MH_ULT_API void end_here() noexcept;

}  // namespace detail

// The child tasks of one task, their parent. Only the parent uses the group. The destructor waits
// for the children that have not ended, and drops their exceptions.
class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() { detail::wait(core_); }

  // Call in a task only. Starts a child on the caller's worker. `name`: as in mh::ult::spawn(). If
  // the worker has no free task slot (Config::tasks_per_worker), the caller runs the function
  // itself at once, so a group makes progress without slots. Such a child delays its parent. If the
  // child waits for something that the parent does later, both wait for ever, and a line on stderr
  // says so.
  template <class F>
  void spawn(F&& function, const char* name = nullptr) {
    const detail::Draft draft = detail::draft();
    // Written for the first child only: a child that ends reads `parent`, and a store at each spawn
    // would race with that read.
    if (core_.parent != draft.parent) core_.parent = draft.parent;
    if (detail::launch(draft, std::forward<F>(function), name, &core_) != nullptr) {
      ++core_.spawned;
    } else {
      run_here(function);
    }
  }

  // Suspends the parent until all children have ended, then throws the first exception of a child.
  // The group can be used again afterwards. `full`: some child never ran, because no stack could be
  // mapped.
  Status wait() {
    detail::wait(core_);
    const bool refused = core_.refused.exchange(false, std::memory_order_relaxed);
    if (core_.has_thrown.exchange(false, std::memory_order_relaxed)) {
      std::rethrow_exception(std::exchange(core_.thrown, nullptr));
    }
    return {refused ? Code::full : Code::ok};
  }

 private:
  template <class F>
  void run_here(F& function) {
    detail::begin_here();
    try {
      function();
    } catch (...) {
      if (!core_.has_thrown.exchange(true, std::memory_order_relaxed)) {
        core_.thrown = std::current_exception();
      }
    }
    detail::end_here();
  }

  detail::GroupCounter core_;
};

}  // namespace mh::ult
