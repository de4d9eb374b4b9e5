// SPDX-License-Identifier: BSD-3-Clause
// Many children, joined at once: one counter instead of a handle for each.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

#include "manyhands/ult/task.hpp"

namespace mh::ult {
namespace detail {

// The children that end somewhere else count `left` down from 0; wait() adds their number. So it
// comes back to 0 once, with the last of them, and that child resumes the parent.
struct Group {
  std::atomic<std::int64_t> left{0};
  std::int64_t spawned = 0;             // parent only
  std::int64_t run_by_parent = 0;       // parent only, in wait()
  Record* parent = nullptr;             // written before the first child is published
  std::atomic<bool> has_thrown{false};  // set by the first child that throws, which then owns ...
  std::exception_ptr thrown;            // ... this; the counting down of `left` publishes it
  std::atomic<bool> refused{false};     // a child had no stack
};
MH_ULT_API void wait(Group& group) noexcept;

}  // namespace detail

// Used by one task, its parent. Waits at the end of its life for children that are left.
class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() { detail::wait(core_); }

  // Task only. A child that finds no slot is run at once by the caller: a group needs no slots to
  // make progress.
  template <class F>
  void spawn(F&& function, const char* name = nullptr) {
    const detail::Draft draft = detail::draft();
    // Only once: children that end read it.
    if (core_.parent != draft.parent) core_.parent = draft.parent;
    if (detail::launch(draft, std::forward<F>(function), name, &core_) != nullptr) {
      ++core_.spawned;
    } else {
      run_here(function);
    }
  }

  // Returns when all children have ended; throws what the first of them threw. The group can be
  // used again. `full`: some child never ran, no stack could be mapped.
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
    try {
      function();
    } catch (...) {
      if (!core_.has_thrown.exchange(true, std::memory_order_relaxed)) {
        core_.thrown = std::current_exception();
      }
    }
  }

  detail::Group core_;
};

}  // namespace mh::ult
