// SPDX-License-Identifier: BSD-3-Clause
// The workers: how many, with what, and what they did.
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
  depth_first,    // the newest task first: little memory, good for recursion
  breadth_first,  // the oldest first
};

struct Config {
  unsigned workers = 0;  // 0: as many as this process may use cores
  // Tasks of one worker that exist at a time, 512 to 262,144; rounded up to a multiple of 64.
  std::uint32_t tasks_per_worker = 4096;
  // The least size of a task's stack. Pages are allocated when they are touched.
  std::size_t stack_bytes = std::size_t{64} * 1024;
  bool guard_pages = true;           // a fault instead of silent damage when a stack is too small
  Order order = Order::depth_first;  // approximately: the order of slots, which are used again
  bool steal = true;                 // idle workers take tasks of others
  bool inline_joins = true;  // a joined task that has not begun runs on the stack of the joiner
  bool bind = false;         // worker i stays on the i-th core that this process may use
  // How long an idle worker looks for work before it sleeps. With more workers than cores: never.
  std::chrono::microseconds spin{20};
  const char* name = "ult";  // threads are called NAME-0, NAME-1, ...
};

// The counters of a worker, since its start.
struct Counters {
  std::uint64_t spawned;    // tasks that got a slot of this worker
  std::uint64_t finished;   // tasks that ended here
  std::uint64_t inlined;    // ... of these, on the stack of the task that joined
  std::uint64_t switches;   // from one stack to another
  std::uint64_t stolen;     // tasks of others that were run here
  std::uint64_t migrated;   // ... of these, that stayed
  std::uint64_t refused;    // spawns that found no slot
  std::uint64_t slept;      // times that the worker slept
  std::uint64_t stacks;     // of the whole scheduler: mapped
  std::uint64_t unguarded;  // ... of these, without a guard page
};

namespace detail {
class Core;
MH_ULT_API Result<Core*> start(const Config& config) noexcept;
MH_ULT_API void finish(Core* core) noexcept;
MH_ULT_API unsigned workers(const Core* core) noexcept;
MH_ULT_API const char* worker_name(const Core* core, unsigned worker) noexcept;
MH_ULT_API Counters counters(const Core* core, unsigned worker) noexcept;
MH_ULT_API Draft draft_anywhere(Core* core, unsigned worker) noexcept;
}  // namespace detail

class Scheduler {
 public:
  // `full`: no memory or no thread; `misuse`: a value of `config` is out of range.
  static Result<Scheduler> start(const Config& config = {}) {
    const Result<detail::Core*> core = detail::start(config);
    if (!core) return core.status();
    return Scheduler(*core);
  }

  Scheduler(Scheduler&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  Scheduler& operator=(Scheduler&&) = delete;
  // Runs what is ready to its end. Tasks that are still blocked then are given up, with a line on
  // stderr that says how many: nothing can wake them that would not be too late.
  ~Scheduler() {
    if (core_ != nullptr) detail::finish(core_);
  }

  // Runs `function` as a task; the calling thread sleeps until it has ended. Throws what it threw.
  // Ordinary threads only (a task spawns and joins).
  template <class F>
  Status run(F&& function) {
    if (self()) return {Code::misuse};
    Result<Task> task = spawn(std::forward<F>(function), "run");
    return task ? task->join() : task.status();
  }

  // From any thread, on any worker of this scheduler; without a number on each in turn.
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
  // NAME-i.
  [[nodiscard]] const char* name(unsigned worker) const {
    return detail::worker_name(core_, worker);
  }
  [[nodiscard]] Counters counters(unsigned worker) const { return detail::counters(core_, worker); }

 private:
  explicit Scheduler(detail::Core* core) : core_(core) {}
  detail::Core* core_;
};

}  // namespace mh::ult
