// SPDX-License-Identifier: BSD-3-Clause
// Light tasks: spawn, join, yield, wait and signal, and variables of a task.
//
// Any thread may call a function, unless its comment says that only tasks may. A function that can
// fail returns mh::Status or mh::Result. join() rethrows an exception that left the task's
// function. A function that starts a task throws std::bad_alloc if a callable beyond kStorage bytes
// gets no memory.
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

struct TaskRecord;  // the scheduler's data of a task
struct GroupCounter;

// A function that runs the callable stored in `storage` if `run` is true, then destroys the
// callable.
using Body = void (*)(void* storage, bool run);

// A task before its publication, in the hands of the spawner. `record` is the library's record of
// the task; nullptr: no slot of the worker is free. `storage` has kStorage bytes for the callable.
// `parent` is the calling task, or nullptr if the caller is no task.
struct Draft {
  TaskRecord* record;
  void* storage;
  TaskRecord* parent;
};
inline constexpr std::size_t kStorage = 128;  // bytes; larger callables are stored on the heap

// The steps of a spawn. draft() takes a task slot of the caller's worker, draft_on() a slot of the
// given worker. The spawner then stores the callable in the draft. publish() makes the task ready
// to run. If the callable cannot be stored, discard() gives the slot back.
MH_ULT_API Draft draft() noexcept;
MH_ULT_API Draft draft_on(unsigned worker) noexcept;  // a worker of the caller's scheduler
MH_ULT_API bool has_worker(unsigned worker) noexcept;
MH_ULT_API void discard(TaskRecord* record) noexcept;
MH_ULT_API void publish(TaskRecord* record, Body body, const char* name,
                        GroupCounter* group) noexcept;

struct Outcome {
  Status status;
  std::exception_ptr thrown;
};
MH_ULT_API Outcome join(TaskRecord* record) noexcept;
MH_ULT_API void detach(TaskRecord* record) noexcept;
MH_ULT_API void signal(TaskRecord* record) noexcept;
MH_ULT_API TaskRecord* self() noexcept;

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

// Stores `function` in the draft and publishes the task. Returns the task's record; nullptr: the
// worker had no free slot.
template <class F>
TaskRecord* launch(Draft draft, F&& function, const char* name, GroupCounter* group) {
  using Callable = std::decay_t<F>;
  if (draft.record == nullptr) return nullptr;
  struct Guard {
    TaskRecord* record;
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

// A reference to a task, for signals. A TaskRef may be copied and does not keep the task alive. A
// signal to an ended task is harmless: at most, another task, which got the ended task's record,
// leaves its wait() without a signal meant for it. A TaskRef must not be used after the end of the
// task's scheduler.
class TaskRef {
 public:
  TaskRef() = default;
  explicit TaskRef(detail::TaskRecord* record) : record_(record) {}
  explicit operator bool() const { return record_ != nullptr; }
  // Makes the task run once more: the task leaves its wait(), or does not block in its next wait().
  // A task keeps at most one signal. A call never blocks, and usually costs one atomic OR. Any
  // thread may call this; the TaskRef must not be empty.
  void signal() const noexcept { detail::signal(record_); }
  bool operator==(const TaskRef&) const = default;

 private:
  detail::TaskRecord* record_ = nullptr;
};

// The right to join a task once. One task or thread uses a Task at a time. The destructor and the
// assignment join a task that is still joinable, and drop an exception of its function.
class Task {
 public:
  Task() = default;
  explicit Task(detail::TaskRecord* record) : record_(record) {}
  Task(Task&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      leave();
      record_ = std::exchange(other.record_, nullptr);
    }
    return *this;
  }
  ~Task() { leave(); }

  // True: join() or detach() may be called. False after join(), after detach(), and after a move
  // from this object.
  [[nodiscard]] bool joinable() const { return record_ != nullptr; }
  [[nodiscard]] TaskRef ref() const { return TaskRef(record_); }

  // Returns when the task has ended. A task that calls this is suspended meanwhile; an ordinary
  // thread sleeps. Throws the exception of the task's function. `full`: the task never ran, because
  // no stack could be mapped. `misuse`: not joinable. A task that has not begun may run inside this
  // call, on the calling task's stack.
  Status join() {
    if (record_ == nullptr) return {Code::misuse};
    const detail::Outcome outcome = detail::join(std::exchange(record_, nullptr));
    if (outcome.thrown) std::rethrow_exception(outcome.thrown);
    return outcome.status;
  }
  // Gives up the right to join: the task runs on and nobody waits for it. The library then drops an
  // exception of the task's function.
  void detach() {
    if (record_ != nullptr) detail::detach(std::exchange(record_, nullptr));
  }

 private:
  void leave() {
    if (record_ != nullptr) detail::join(std::exchange(record_, nullptr));
  }
  detail::TaskRecord* record_ = nullptr;
};

// Call in a task only. Starts a task on the caller's worker. `name` is for the debugger and must
// outlive the task. `full`: the worker has Config::tasks_per_worker tasks, and the call had no
// effect. The caller may run the function itself, or try again after tasks have ended. `misuse`:
// the caller is not a task.
template <class F>
Result<Task> spawn(F&& function, const char* name = nullptr);
// Call in a task only. Starts a task on the given worker of the caller's scheduler; otherwise like
// spawn(). With Config::steal, another worker may run the task. `misuse`: the caller is not a task,
// or there is no such worker.
template <class F>
Result<Task> spawn_on(unsigned worker, F&& function, const char* name = nullptr);

// Returns the calling task, or an empty TaskRef on an ordinary thread.
inline TaskRef self() { return TaskRef(detail::self()); }

// Lets other ready tasks of the worker run. A worker that has stolen a task becomes the task's home
// when the task yields, if that worker has a free task slot. On an ordinary thread, yield() calls
// sched_yield().
MH_ULT_API void yield() noexcept;
// Call in a task only. Suspends the task until another task or thread signals it
// (TaskRef::signal()). Returns at once if the task got a signal since it last began to run. wait()
// may also return without a signal. Therefore always call wait() in a loop. The condition is
// atomic, and the signaller sets it before the signal:
//     while (!arrived.load()) mh::ult::wait();
MH_ULT_API void wait() noexcept;
inline void signal(TaskRef task) noexcept { task.signal(); }

// this_worker() returns the number of the worker that runs the calling task, from 0; kNoWorker on
// an ordinary thread. The number may change with each call that can block, yield or join.
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
// Returns a new key for variables of tasks, or -1 if all keys of the process are taken. `destroy`
// gets a task's value when the task ends.
MH_ULT_API int make_local_key(void (*destroy)(void*)) noexcept;
// Returns the address of the calling task's value for `key`; nullptr: the caller is no task, or
// there is no memory.
MH_ULT_API void** local(int key) noexcept;
}  // namespace detail

// A variable with a separate value in each task. The first get() of a task creates the value; the
// end of the task destroys it. The destructor of a value may use any Local. The end of the task
// then destroys the values that the destructors made, and repeats this three times at most. A Local
// should have static storage duration, because a process has only 64 keys and never reuses a key
// (see valid()).
template <class T>
class Local {
 public:
  Local() : key_(detail::make_local_key([](void* value) { delete static_cast<T*>(value); })) {}
  // False: the process had no key left for this variable, and get() returns nullptr.
  [[nodiscard]] bool valid() const { return key_ >= 0; }
  // Returns the calling task's value of this variable. nullptr: the caller is not a task, or there
  // is no key or no memory.
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
