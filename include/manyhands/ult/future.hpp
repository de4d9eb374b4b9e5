// SPDX-License-Identifier: BSD-3-Clause
// Future: a task with a result, and async() to start it.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "manyhands/ult/scheduler.hpp"
#include "manyhands/ult/task.hpp"

namespace mh::ult {

// The result of a function that runs as a task. A Future is movable, and one task or thread uses it
// at a time. The destructor and the assignment join the task and drop an exception of the function.
template <class T>
class Future {
 public:
  Future() = default;
  Future(Future&&) noexcept = default;
  // The first statement joins the old task, which writes to the old value until its end.
  Future& operator=(Future&& other) noexcept {
    task_ = std::move(other.task_);
    value_ = std::move(other.value_);
    return *this;
  }
  ~Future() = default;

  // Waits until the task has ended, as Task::join() does. Returns the function's value, or the
  // reason why the task never ran (`full`: no stack could be mapped). Throws the exception of the
  // function. Call get() once.
  Result<T> get() {
    if (const Status status = task_.join(); !status) return status;
    return std::move(**value_);
  }
  [[nodiscard]] TaskRef ref() const { return task_.ref(); }
  [[nodiscard]] bool valid() const { return task_.joinable(); }  // false after get()

 private:
  template <class Spawn, class F>
  friend auto make_future(Spawn spawn, F&& function);

  // Declared before task_: the value must outlive the task, which the destructor of task_ joins.
  std::unique_ptr<std::optional<T>> value_ = std::make_unique<std::optional<T>>();
  Task task_;
};

// Runs `function` as a task, and returns a Result<Future> of its value. `spawn` starts a task for
// the callable that it gets, and returns Result<Task>. Fails as `spawn` does. Throws std::bad_alloc
// if there is no memory for the value.
template <class Spawn, class F>
auto make_future(Spawn spawn, F&& function) {
  using T = std::invoke_result_t<F>;
  static_assert(!std::is_void_v<T>, "async() needs a result: use spawn() or a Group without one");
  if constexpr (!std::is_void_v<T>) {
    Future<T> future;
    Result<Task> task = spawn([place = future.value_.get(),
                               f = std::forward<F>(function)]() mutable { place->emplace(f()); });
    if (!task) return Result<Future<T>>(task.status());
    future.task_ = std::move(*task);
    return Result<Future<T>>(std::move(future));
  }
}

// Call in a task only. Runs `function` as a new task on the caller's worker. Failures are those of
// spawn() in task.hpp.
template <class F>
auto async(F&& function) {
  return make_future([](auto&& body) { return spawn(std::forward<decltype(body)>(body)); },
                     std::forward<F>(function));
}
// Any thread may call this. Runs `function` as a new task on worker `worker` of the scheduler.
// kNoWorker: the scheduler takes its workers in turn. Failures are those of Scheduler::spawn_on().
template <class F>
auto async_on(Scheduler& scheduler, unsigned worker, F&& function) {
  return make_future(
      [&](auto&& body) { return scheduler.spawn_on(worker, std::forward<decltype(body)>(body)); },
      std::forward<F>(function));
}

}  // namespace mh::ult
