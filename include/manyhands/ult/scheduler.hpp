// SPDX-License-Identifier: BSD-3-Clause
// A scheduler of light tasks: its configuration, its workers (threads that run tasks), its
// counters.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "manyhands/result.hpp"
#include "manyhands/ult/task.hpp"

namespace mh::ult {

enum class Order : std::uint8_t {
  depth_first,    // the newest task first: uses little memory, good for recursion
  breadth_first,  // the oldest task first
};

struct Config {
  unsigned workers = 0;  // at most 4096; 0: one for each core that this process may use
  // The maximum number of tasks that one worker has at a time, 512 to 262,144. The scheduler rounds
  // the number up to a multiple of 64.
  std::uint32_t tasks_per_worker = 4096;
  // The least stack size of a task in bytes, 8 KB to 1 GB. Linux allocates a page of the stack at
  // the first touch, so unused pages cost no memory.
  std::size_t stack_bytes = std::size_t{64} * 1024;
  bool guard_pages = true;           // a stack overflow faults instead of overwriting other memory
  Order order = Order::depth_first;  // approximate: the order of task slots, which are reused
  bool steal = true;                 // idle workers take tasks of other workers
  bool inline_joins = true;  // a joined task that has not begun runs on the stack of the joiner
  bool bind = false;         // worker i stays on the i-th core that this process may use
  // The time for which an idle worker looks for work before it sleeps. If the scheduler has more
  // workers than the process has cores, an idle worker sleeps at once.
  std::chrono::microseconds spin{20};
  const char* name = "ult";  // the worker threads are named NAME-0, NAME-1, ...
};

// The counters of a worker since the start of its scheduler. While the worker runs,
// Scheduler::counters() reads them one after the other, so sums of several counters are
// approximate.
struct Counters {
  std::uint64_t spawned;    // tasks that this worker's running tasks spawned on this worker
  std::uint64_t finished;   // tasks that ended on this worker
  std::uint64_t inlined;    // finished tasks that ran on the stack of their joiner
  std::uint64_t switches;   // switches from one stack to another
  std::uint64_t stolen;     // tasks of other workers that this worker took
  std::uint64_t migrated;   // stolen tasks whose home became this worker
  std::uint64_t refused;    // spawns by this worker's running tasks that found no free slot on it
  std::uint64_t slept;      // times that the worker went to sleep
  std::uint64_t parked;     // waits in MPI calls of tasks that gave this worker to other tasks
  std::uint64_t stacks;     // stacks mapped by the whole scheduler
  std::uint64_t unguarded;  // stacks of the whole scheduler without a guard page
};

namespace detail {
class SchedulerCore;
MH_ULT_API Result<SchedulerCore*> start(const Config& config) noexcept;
MH_ULT_API void finish(SchedulerCore* core) noexcept;
// Any thread may call this. Limits the workers of this process to `own` cores from this call on,
// because other processes use the same cores.
MH_ULT_API void share_cores(unsigned own) noexcept;
MH_ULT_API unsigned workers(const SchedulerCore* core) noexcept;
MH_ULT_API const char* worker_name(const SchedulerCore* core, unsigned worker) noexcept;
MH_ULT_API Counters counters(const SchedulerCore* core, unsigned worker) noexcept;
MH_ULT_API Draft draft_anywhere(SchedulerCore* core, unsigned worker) noexcept;
}  // namespace detail

// The workers of one scheduler, which are threads of this process. Any thread may call a function
// before the destructor begins, unless the function's comment says otherwise.
class Scheduler {
 public:
  // Starts the workers. `full`: no memory or no thread is available. `misuse`: a value of `config`
  // is out of range.
  static Result<Scheduler> start(const Config& config = {}) {
    const Result<detail::SchedulerCore*> core = detail::start(config);
    if (!core) return core.status();
    return Scheduler(*core);
  }

  Scheduler(Scheduler&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  Scheduler& operator=(Scheduler&&) = delete;
  // For ordinary threads only, not for tasks. Runs all ready tasks and all tasks that are parked in
  // MPI calls to their ends, then abandons the tasks that still wait for a signal. A line on stderr
  // gives the number of abandoned tasks. If a task of this scheduler calls exit(), the destructor
  // of a static Scheduler runs in that task and does nothing.
  ~Scheduler() {
    if (core_ != nullptr) detail::finish(core_);
  }

  // For ordinary threads only; a task calls spawn() and join() instead. Runs `function` as a task.
  // The calling thread sleeps until the task has ended. Throws the exception of the function.
  // `misuse`: the caller is a task. Other failures are those of spawn() and Task::join().
  template <class F>
  Status run(F&& function) {
    if (self()) return {Code::misuse};
    Result<Task> task = spawn(std::forward<F>(function), "run");
    return task ? task->join() : task.status();
  }

  // Any thread may call spawn() and spawn_on(). They start a task on a worker of this scheduler;
  // spawn() takes the workers in turn. `full`: the worker has no free task slot, and the call had
  // no effect. `misuse`: there is no such worker.
  template <class F>
  Result<Task> spawn(F&& function, const char* name = nullptr) {
    return spawn_on(kNoWorker, std::forward<F>(function), name);
  }
  template <class F>
  Result<Task> spawn_on(unsigned worker, F&& function, const char* name = nullptr) {
    if (worker != kNoWorker && worker >= workers()) return Status{Code::misuse};
    auto* record = detail::launch(detail::draft_anywhere(core_, worker), std::forward<F>(function),
                                  name, nullptr);
    if (record == nullptr) return Status{Code::full};
    return Task(record);
  }

  [[nodiscard]] unsigned workers() const { return detail::workers(core_); }
  // The name of the worker's thread: the first nine characters of Config::name, a hyphen and the
  // worker's number.
  [[nodiscard]] const char* name(unsigned worker) const {
    return detail::worker_name(core_, worker);
  }
  [[nodiscard]] Counters counters(unsigned worker) const { return detail::counters(core_, worker); }

 private:
  explicit Scheduler(detail::SchedulerCore* core) : core_(core) {}
  detail::SchedulerCore* core_;
};

}  // namespace mh::ult
