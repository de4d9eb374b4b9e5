// SPDX-License-Identifier: BSD-3-Clause
// The C interface of light tasks, manyhands/ult.h. No function throws.
#include <new>

#include "manyhands/ult.h"
#include "manyhands/ult.hpp"

namespace {

namespace ult = mh::ult;
using ult::detail::SchedulerCore;
using ult::detail::TaskRecord;

SchedulerCore* core_of(mh_ult_scheduler* scheduler) {
  return reinterpret_cast<SchedulerCore*>(scheduler);
}
TaskRecord* record_of(mh_ult_task* task) { return reinterpret_cast<TaskRecord*>(task); }
mh_ult_task* as_task(TaskRecord* record) { return reinterpret_cast<mh_ult_task*>(record); }

int code_of(mh::Code code) {
  switch (code) {
    case mh::Code::ok:
      return MH_ULT_OK;
    case mh::Code::full:
      return MH_ULT_FULL;
    case mh::Code::misuse:
      return MH_ULT_MISUSE;
    default:
      return MH_ULT_SYSTEM;
  }
}

struct CTask {
  mh_ult_function* function;
  void* argument;
  void operator()() const { function(argument); }
};

int launch(ult::detail::Draft draft, CTask call, mh_ult_task** task) {
  TaskRecord* record = ult::detail::launch(draft, call, nullptr, nullptr);
  if (record == nullptr) return MH_ULT_FULL;
  *task = as_task(record);
  return MH_ULT_OK;
}

template <class T, class... Arguments>
int create(T** made, Arguments... arguments) {
  T* object = new (std::nothrow) T(arguments...);
  if (object == nullptr) return MH_ULT_FULL;
  *made = object;
  return MH_ULT_OK;
}

ult::Config config_of(const mh_ult_config& c) {
  ult::Config config;
  config.workers = c.workers;
  if (c.tasks_per_worker != 0) config.tasks_per_worker = c.tasks_per_worker;
  if (c.stack_bytes != 0) config.stack_bytes = c.stack_bytes;
  config.guard_pages = c.no_guard_pages == 0;
  config.order = c.breadth_first == 0 ? ult::Order::depth_first : ult::Order::breadth_first;
  config.steal = c.no_stealing == 0;
  config.inline_joins = c.no_inline_joins == 0;
  config.bind = c.bind != 0;
  if (c.name != nullptr) config.name = c.name;
  return config;
}

}  // namespace

struct mh_ult_mutex : ult::Mutex {};
struct mh_ult_barrier : ult::Barrier {
  using ult::Barrier::Barrier;
};

int mh_ult_start(const mh_ult_config* config, mh_ult_scheduler** scheduler) {
  const auto core = ult::detail::start(config == nullptr ? ult::Config{} : config_of(*config));
  if (!core) return code_of(core.status().code);
  *scheduler = reinterpret_cast<mh_ult_scheduler*>(*core);
  return MH_ULT_OK;
}

void mh_ult_finish(mh_ult_scheduler* scheduler) { ult::detail::finish(core_of(scheduler)); }

unsigned mh_ult_workers(const mh_ult_scheduler* scheduler) {
  return ult::detail::workers(reinterpret_cast<const SchedulerCore*>(scheduler));
}

int mh_ult_run(mh_ult_scheduler* scheduler, mh_ult_function* function, void* argument) {
  if (ult::detail::self() != nullptr) return MH_ULT_MISUSE;
  mh_ult_task* task = nullptr;
  const int code = mh_ult_spawn_on(scheduler, MH_ULT_ANY, function, argument, &task);
  return code == MH_ULT_OK ? mh_ult_join(task) : code;
}

int mh_ult_spawn(mh_ult_function* function, void* argument, mh_ult_task** task) {
  const ult::detail::Draft draft = ult::detail::draft();
  if (draft.parent == nullptr) return MH_ULT_MISUSE;
  return launch(draft, {function, argument}, task);
}

int mh_ult_spawn_on(mh_ult_scheduler* scheduler, unsigned worker, mh_ult_function* function,
                    void* argument, mh_ult_task** task) {
  if (worker != MH_ULT_ANY && worker >= mh_ult_workers(scheduler)) return MH_ULT_MISUSE;
  return launch(ult::detail::draft_anywhere(core_of(scheduler), worker), {function, argument},
                task);
}

int mh_ult_join(mh_ult_task* task) {
  const ult::detail::Outcome outcome = ult::detail::join(record_of(task));
  return outcome.thrown ? MH_ULT_THREW : code_of(outcome.status.code);
}
void mh_ult_detach(mh_ult_task* task) { ult::detail::detach(record_of(task)); }
void mh_ult_yield() { ult::yield(); }
void mh_ult_wait() { ult::wait(); }
void mh_ult_signal(mh_ult_task* task) { ult::detail::signal(record_of(task)); }
mh_ult_task* mh_ult_self() { return as_task(ult::detail::self()); }
unsigned mh_ult_this_worker() { return ult::this_worker(); }

int mh_ult_mutex_create(mh_ult_mutex** mutex) { return create(mutex); }
void mh_ult_mutex_destroy(mh_ult_mutex* mutex) { delete mutex; }
void mh_ult_mutex_lock(mh_ult_mutex* mutex) { mutex->lock(); }
void mh_ult_mutex_unlock(mh_ult_mutex* mutex) { mutex->unlock(); }

int mh_ult_barrier_create(uint32_t count, mh_ult_barrier** barrier) {
  return count == 0 ? MH_ULT_MISUSE : create(barrier, count);
}
void mh_ult_barrier_destroy(mh_ult_barrier* barrier) { delete barrier; }
int mh_ult_barrier_wait(mh_ult_barrier* barrier) { return barrier->wait() ? 1 : 0; }

int mh_ult_key_create(void (*destroy)(void*), int* key) {
  const int made = ult::detail::make_local_key(destroy == nullptr ? [](void*) {} : destroy);
  if (made < 0) return MH_ULT_FULL;
  *key = made;
  return MH_ULT_OK;
}

int mh_ult_set_local(int key, void* value) {
  void** place = ult::detail::local(key);
  if (place == nullptr) return ult::detail::self() == nullptr ? MH_ULT_MISUSE : MH_ULT_FULL;
  *place = value;
  return MH_ULT_OK;
}

void* mh_ult_get_local(int key) {
  void** place = ult::detail::local(key);
  return place == nullptr ? nullptr : *place;
}
