// SPDX-License-Identifier: BSD-3-Clause
#include "ult/parking.hpp"

#include <atomic>

#include "manyhands/ult/task.hpp"
#include "ult/worker.hpp"

namespace mh::ult::detail {
namespace {

// The functions of libmanyhands.so that idle workers call. __mh_light_tasks() stores with release,
// parked_waits() loads with acquire: the functions may use what libmanyhands.so wrote before it
// called __mh_light_tasks().
std::atomic<const mh_parked_waits*> waits{nullptr};

void* current() { return self(); }

// Called by libmanyhands.so in a task that waits in an MPI call: suspends the task until
// `is_over(of)` is not 0. The task may continue on another worker, so nothing of this worker is
// used after wait().
void park(int (*is_over)(void* of), void* of) {
  Worker& here = *this_thread_worker();
  SchedulerCore& core = here.core;
  here.counts.parked.add();
  core.parked.fetch_add(1, std::memory_order_relaxed);
  while (is_over(of) == 0) ult::wait();
  core.parked.fetch_sub(1, std::memory_order_relaxed);
}

void wake(void* task) { signal(static_cast<TaskRecord*>(task)); }

constexpr mh_light_tasks kTasks{
    .current = current, .park = park, .wake = wake, .share_cores = [](unsigned own) {
      share_cores(own);
    }};

}  // namespace

const mh_parked_waits* parked_waits() { return waits.load(std::memory_order_acquire); }

}  // namespace mh::ult::detail

MH_ULT_API const mh_light_tasks* __mh_light_tasks(std::uint32_t version,
                                                  const mh_parked_waits* functions) {
  if (version != MH_LIGHT_TASKS_VERSION) return nullptr;
  mh::ult::detail::waits.store(functions, std::memory_order_release);
  return &mh::ult::detail::kTasks;
}
