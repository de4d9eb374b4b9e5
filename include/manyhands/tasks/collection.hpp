// SPDX-License-Identifier: BSD-3-Clause
// A task collection: many small tasks, spread over all ranks (section 4 of the paper that
// config.hpp names).
//
// A task is a plain value, copied bytewise, with a registered function that runs it. A rank adds
// tasks to its own part. In process() the ranks run all tasks, each task on any rank. Tasks may add
// tasks. restore() adds again, for the next process(), the tasks with which the last one began; the
// balancer chooses their ranks.
//
// Threads: the thread that created the collection makes all calls, and tasks run on that thread. A
// task may call only add() and add_in_place(), of any collection. With MH_TASKS_IN_WAIT=1 other
// tasks run on the stack of a task that waits in an MPI call. Those other tasks let no task run in
// their own waits (docs/tasks.md).
//
// A call that fails returns a Status with the reason. After `system` (the network has failed) every
// further process() fails with `system`. With Config::survive_loss, after `gone` (a rank has died
// outside of process()) every further process() fails with `gone`.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "manyhands/tasks/config.hpp"
#include "manyhands/tasks/network.hpp"

namespace mh::tasks {

class Context;
namespace detail {
class CollectionCore;
using Any = void (*)() noexcept;
using Call = void (*)(Context&, const void* task, Any function);

struct CoreDeleter {
  MH_TASKS_API void operator()(CollectionCore* core) const noexcept;
};
MH_TASKS_API Result<CollectionCore*> create(std::unique_ptr<Network> network,
                                            const Config& config) noexcept;
MH_TASKS_API Result<std::uint32_t> define(CollectionCore& core, Call call, Any function,
                                          std::size_t bytes) noexcept;
MH_TASKS_API Result<void*> place(CollectionCore& core, std::uint32_t function) noexcept;
MH_TASKS_API void placed(CollectionCore& core) noexcept;
MH_TASKS_API Status process(CollectionCore& core) noexcept;
MH_TASKS_API Status restore(CollectionCore& core) noexcept;
MH_TASKS_API Statistics statistics(const CollectionCore& core) noexcept;
MH_TASKS_API std::uint64_t size(const CollectionCore& core) noexcept;
}  // namespace detail

// The argument of a task's function: what a task may ask about its rank. Valid during the call of
// that function.
class Context {
 public:
  // Returns the object to which the member `local` of this rank's Config points. `T` is the
  // object's type.
  template <class T>
  [[nodiscard]] T& local() const {
    return *static_cast<T*>(local_);
  }
  // The number of this rank in the collection (Network::rank()), which may differ from its rank in
  // the communicator.
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  // Tells restore() to leave this task out. A task calls prune() if it had nothing to do. (With
  // Balancer::steal the task comes back all the same, because restore() then brings back all tasks
  // that were added outside of process().)
  void prune() { pruned_ = true; }

 private:
  friend class detail::CollectionCore;
  void* local_ = nullptr;
  std::uint32_t rank_ = 0;
  bool pruned_ = false;
};

// A handle of a registered function that runs tasks of type `Task`. Its number is the same on all
// ranks. Copyable. A default-constructed Function makes add() fail with `misuse`.
template <class Task>
class Function {
 public:
  Function() = default;  // none yet

 private:
  friend class Collection;
  explicit Function(std::uint32_t number) : number_(number) {}
  std::uint32_t number_ = ~std::uint32_t{0};
};

// This rank's part of a collection. Movable. The collection owns its network.
class Collection {
 public:
  // Makes a collection. Collective. `full`: no memory. `misuse`: a value of `config` is out of
  // range. `unsupported`: Config::server is set and the network has no threads, or
  // Config::survive_loss is set where config.hpp does not allow it. `system`: the network has
  // failed. tasks::create() of mpi.hpp makes the network.
  static Result<Collection> create(std::unique_ptr<Network> network, const Config& config) {
    const Result<detail::CollectionCore*> core = detail::create(std::move(network), config);
    if (!core) return core.status();
    return Collection(*core);
  }
  // Destroys this rank's part. Collective, and so is an assignment, which destroys the collection
  // that it replaces. MPI must still be running.
  ~Collection() = default;
  Collection(Collection&&) = default;
  Collection& operator=(Collection&&) = default;

  // Registers a function. All ranks register the same functions in the same order. `misuse`: the
  // type is larger than Config::task_bytes, or `function` is nullptr. `full`: no memory.
  template <class Task>
  Result<Function<Task>> define(void (*function)(Context&, const Task&) noexcept) {
    static_assert(std::is_trivially_copyable_v<Task>, "tasks travel as bytes");
    static_assert(alignof(Task) <= alignof(std::uint64_t));
    const detail::Call call = [](Context& context, const void* task, detail::Any any) {
      const auto typed = reinterpret_cast<void (*)(Context&, const Task&) noexcept>(any);
      typed(context, *static_cast<const Task*>(task));
    };
    const auto any = reinterpret_cast<detail::Any>(function);
    const Result<std::uint32_t> number = detail::define(*core_, call, any, sizeof(Task));
    if (!number) return number.status();
    return Function<Task>(*number);
  }

  // Adds a task to this rank's part. `misuse`: the function is not registered. `full`: the part has
  // Config::max_tasks tasks; run some of them first, or call this task's function instead. `retry`:
  // the part has free slots, but thieves are still copying stolen tasks out of them.
  template <class Task>
  Status add(Function<Task> function, const Task& task) {
    const Result<void*> at = detail::place(*core_, function.number_);
    if (!at) return at.status();
    std::memcpy(*at, &task, sizeof(Task));
    detail::placed(*core_);
    return {};
  }
  // Adds a task without a copy: `initialise(Task*)` writes to the task's slot. The memory of the
  // slot is not initialised. `initialise` must not add tasks. Fails as add(), before `initialise`
  // is called.
  template <class Task, class Initialise>
  Status add_in_place(Function<Task> function, Initialise&& initialise) {
    const Result<void*> at = detail::place(*core_, function.number_);
    if (!at) return at.status();
    initialise(static_cast<Task*>(*at));
    detail::placed(*core_);
    return {};
  }

  // Runs all tasks of all ranks, and the tasks that those tasks add. Collective. Returns when all
  // these tasks have ended. `misuse`: called in a task. `full`: no memory.
  Status process() { return detail::process(*core_); }
  // Adds every task again that was added outside of process() before the last process(), for the
  // next process(). Collective. `misuse`: called in a task, before the first process(), a second
  // time without a process() between, or if an add() has followed the last process(). `full`: no
  // memory, or with Config::survive_loss more tasks than Config::max_tasks.
  Status restore() { return detail::restore(*core_); }

  // The number of tasks of this rank that wait to be run.
  [[nodiscard]] std::uint64_t size() const { return detail::size(*core_); }
  [[nodiscard]] Statistics statistics() const { return detail::statistics(*core_); }

 private:
  explicit Collection(detail::CollectionCore* core) : core_(core) {}
  std::unique_ptr<detail::CollectionCore, detail::CoreDeleter> core_;
};

}  // namespace mh::tasks
