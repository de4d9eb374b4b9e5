// SPDX-License-Identifier: BSD-3-Clause
// A task as its maker and as itself sees it.
//
// All functions may be called by any thread unless they say "task only". What can fail returns
// mh::Status or mh::Result; an exception that leaves a task's function is thrown again by join().
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "manyhands/result.hpp"

#define MH_ULT_API __attribute__((visibility("default")))

namespace mh::ult {

namespace detail {

struct Record;  // a task, as the scheduler keeps it
struct Group;

// Runs the callable in `storage` (or does not) and destroys it.
using Body = void (*)(void* storage, bool run);

// A task that is not published yet. No record: all slots of the worker are taken. No parent: the
// caller is not a task.
struct Draft {
  Record* record;
  void* storage;
  Record* parent;
};
inline constexpr std::size_t kStorage = 128;  // callables up to this size are kept in the record

MH_ULT_API Draft draft() noexcept;
MH_ULT_API Draft draft_on(unsigned worker) noexcept;  // of the same scheduler
MH_ULT_API bool has_worker(unsigned worker) noexcept;
MH_ULT_API void discard(Record* record) noexcept;
MH_ULT_API void publish(Record* record, Body body, const char* name, Group* group) noexcept;

struct Outcome {
  Status status;
  std::exception_ptr thrown;
};
MH_ULT_API Outcome join(Record* record) noexcept;
MH_ULT_API void detach(Record* record) noexcept;
MH_ULT_API void signal(Record* record) noexcept;
MH_ULT_API Record* self() noexcept;

template <class F>
void in_place(void* storage, bool run) {
  struct Guard {
    F* f;
    ~Guard() { f->~F(); }
  } guard{static_cast<F*>(storage)};
  if (run) (*guard.f)();
}

template <class F>
void on_heap(void* storage, bool run) {
  const std::unique_ptr<F> f(*static_cast<F**>(storage));
  if (run) (*f)();
}

// The record, published; nullptr: no slot.
template <class F>
Record* launch(Draft draft, F&& function, const char* name, Group* group) {
  using Callable = std::decay_t<F>;
  if (draft.record == nullptr) return nullptr;
  struct Guard {
    Record* record;
    ~Guard() {
      if (record != nullptr) discard(record);
    }
  } guard{draft.record};  // a copy may throw
  Body body;
  if constexpr (sizeof(Callable) <= kStorage && alignof(Callable) <= alignof(std::max_align_t)) {
    ::new (draft.storage) Callable(std::forward<F>(function));
    body = &in_place<Callable>;
  } else {
    *static_cast<Callable**>(draft.storage) = new Callable(std::forward<F>(function));
    body = &on_heap<Callable>;
  }
  publish(std::exchange(guard.record, nullptr), body, name, group);
  return draft.record;
}

}  // namespace detail

// A task to signal. Copies freely, keeps nothing alive. Signalling a task that has ended is
// harmless: at most some task wakes once for nothing.
class TaskRef {
 public:
  TaskRef() = default;
  explicit TaskRef(detail::Record* record) : record_(record) {}
  explicit operator bool() const { return record_ != nullptr; }
  // Makes the task run once more: it leaves its wait(), or does not block in its next one. A task
  // keeps one signal at most. One atomic or, in most cases; never blocks.
  void signal() const noexcept { detail::signal(record_); }
  bool operator==(const TaskRef&) const = default;

 private:
  detail::Record* record_ = nullptr;
};

// The right to join a task, once. Joins at the end of its life if it still can.
class Task {
 public:
  Task() = default;
  explicit Task(detail::Record* record) : record_(record) {}
  Task(Task&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      leave();
      record_ = std::exchange(other.record_, nullptr);
    }
    return *this;
  }
  ~Task() { leave(); }

  [[nodiscard]] bool joinable() const { return record_ != nullptr; }
  [[nodiscard]] TaskRef ref() const { return TaskRef(record_); }

  // Returns when the task has ended. A task that joins is suspended; an ordinary thread sleeps.
  // Throws what the task's function threw. `full`: the task never ran, no stack could be mapped.
  // A task that has not begun may be run here, by the caller and on its stack.
  Status join() {
    if (record_ == nullptr) return {Code::misuse};
    const detail::Outcome outcome = detail::join(std::exchange(record_, nullptr));
    if (outcome.thrown) std::rethrow_exception(outcome.thrown);
    return outcome.status;
  }
  // Nobody will join. What its function throws is dropped.
  void detach() {
    if (record_ != nullptr) detail::detach(std::exchange(record_, nullptr));
  }

 private:
  void leave() {
    if (record_ != nullptr) detail::join(std::exchange(record_, nullptr));
  }
  detail::Record* record_ = nullptr;
};

// Task only: a new task on the worker that runs this one. `full`: as many tasks as the worker may
// have (Config::tasks_per_worker) exist; nothing was changed, the caller may run the function
// itself or try again when tasks have ended. `misuse`: not called by a task.
// `name` is for the debugger and must outlive the task.
template <class F>
Result<Task> spawn(F&& function, const char* name = nullptr);
// The same, on a worker of the same scheduler. With stealing on, another one may run it.
template <class F>
Result<Task> spawn_on(unsigned worker, F&& function, const char* name = nullptr);

// The calling task; none if an ordinary thread calls.
inline TaskRef self() { return TaskRef(detail::self()); }

// Lets other ready tasks of the worker run; a stolen task becomes the thief's own.
MH_ULT_API void yield() noexcept;
// Task only: suspends the task until a signal. Returns at once if there has been one since the task
// last began to run, and may return without one. So always in a loop, with a condition that is
// atomic and set before the signal:
//     while (!arrived.load()) mh::ult::wait();
MH_ULT_API void wait() noexcept;
inline void signal(TaskRef task) noexcept { task.signal(); }

// The worker that runs the calling task, as it is now; kNoWorker on an ordinary thread.
inline constexpr unsigned kNoWorker = ~0U;
MH_ULT_API unsigned this_worker() noexcept;

template <class F>
Result<Task> spawn(F&& function, const char* name) {
  const detail::Draft draft = detail::draft();
  if (draft.parent == nullptr) return Status{Code::misuse};
  auto* record = detail::launch(draft, std::forward<F>(function), name, nullptr);
  if (record == nullptr) return Status{Code::full};
  return Task(record);
}

template <class F>
Result<Task> spawn_on(unsigned worker, F&& function, const char* name) {
  if (!self() || !detail::has_worker(worker)) return Status{Code::misuse};
  const detail::Draft draft = detail::draft_on(worker);
  auto* record = detail::launch(draft, std::forward<F>(function), name, nullptr);
  if (record == nullptr) return Status{Code::full};
  return Task(record);
}

namespace detail {
MH_ULT_API int make_local_key(void (*destroy)(void*)) noexcept;
// The task's place for `key`; nullptr if there is no task or no memory.
MH_ULT_API void** local(int key) noexcept;
}  // namespace detail

// A variable that each task has for itself, made when the task first asks for it and destroyed when
// the task ends. For variables of static storage duration: keys are not given back, and there are
// 64 (see valid()).
template <class T>
class Local {
 public:
  Local() : key_(detail::make_local_key([](void* value) { delete static_cast<T*>(value); })) {}
  [[nodiscard]] bool valid() const { return key_ >= 0; }
  // nullptr: not called by a task, no key, or no memory.
  T* get() {
    void** place = key_ < 0 ? nullptr : detail::local(key_);
    if (place == nullptr) return nullptr;
    if (*place == nullptr) *place = new (std::nothrow) T();
    return static_cast<T*>(*place);
  }

 private:
  int key_;
};

}  // namespace mh::ult
