// SPDX-License-Identifier: BSD-3-Clause
// The result of a task.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "manyhands/ult/scheduler.hpp"
#include "manyhands/ult/task.hpp"

namespace mh::ult {

// The result of a function that runs as a task. Movable; the destructor joins the task.
template <class T>
class Future {
 public:
  // Returns when the task has ended, with its value or the reason why it never ran; throws what its
  // function threw. Once.
  Result<T> get() {
    if (const Status status = task_.join(); !status) return status;
    return std::move(**value_);
  }
  [[nodiscard]] TaskRef ref() const { return task_.ref(); }
  [[nodiscard]] bool valid() const { return task_.joinable(); }

 private:
  template <class Spawn, class F>
  friend auto make_future(Spawn spawn, F&& function) -> Result<Future<std::invoke_result_t<F>>>;

  // Above the task: it must outlive it.
  std::unique_ptr<std::optional<T>> value_ = std::make_unique<std::optional<T>>();
  Task task_;
};

// `spawn` makes a task of a callable: Result<Task>.
template <class Spawn, class F>
auto make_future(Spawn spawn, F&& function) -> Result<Future<std::invoke_result_t<F>>> {
  using T = std::invoke_result_t<F>;
  static_assert(!std::is_void_v<T>, "spawn() a function that returns nothing");
  Future<T> future;
  Result<Task> task = spawn([place = future.value_.get(), f = std::forward<F>(function)]() mutable {
    place->emplace(f());
  });
  if (!task) return task.status();
  future.task_ = std::move(*task);
  return future;
}

// Task only: runs `function` as a new task; see spawn().
template <class F>
auto async(F&& function) {
  return make_future([](auto&& body) { return spawn(std::forward<decltype(body)>(body)); },
                     std::forward<F>(function));
}
// The same on a worker of the scheduler, from any thread; kNoWorker: on each in turn.
template <class F>
auto async_on(Scheduler& scheduler, unsigned worker, F&& function) {
  return make_future(
      [&](auto&& body) { return scheduler.spawn_on(worker, std::forward<decltype(body)>(body)); },
      std::forward<F>(function));
}

}  // namespace mh::ult
