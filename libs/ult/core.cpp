// SPDX-License-Identifier: BSD-3-Clause
// The start and the end of a scheduler of light tasks: its workers, their threads, the counters.
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "base/clock.hpp"
#include "base/line.hpp"
#include "manyhands/ult/sync.hpp"
#include "ult/worker.hpp"

namespace mh::ult::detail {
namespace {

std::uint32_t cores_of_process(cpu_set_t& set) {
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::uint32_t>(CPU_COUNT(&set));
}

std::uint32_t cores_of_process() {
  cpu_set_t set;
  return cores_of_process(set);
}

// Binds a worker's thread to one core. Among the cores that the process may use, worker `number`
// gets the core at index `number`, modulo the number of those cores.
void bind_to_core(std::thread& thread, std::uint32_t number) {
  cpu_set_t all;
  const std::uint32_t count = cores_of_process(all);
  std::uint32_t left = number % std::max(1U, count);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || left-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);
    return;
  }
}

// The schedulers of this process that have not ended.
struct LiveSchedulers {
  std::mutex mutex;
  SchedulerCore* first = nullptr;
};
constinit LiveSchedulers g_live;

void enlist(SchedulerCore* core) {
  const std::lock_guard lock(g_live.mutex);
  core->next_live = std::exchange(g_live.first, core);
}

// Takes a scheduler whose threads have ended out of the list. Returns once no other thread is about
// to signal its tasks (Telling). acquire: partner is the release in ~Telling().
void await_tellers(SchedulerCore* ended) {
  const std::lock_guard lock(g_live.mutex);
  SchedulerCore** at = &g_live.first;
  while (*at != ended) at = &(*at)->next_live;
  *at = ended->next_live;
  for (SchedulerCore* other = g_live.first; other != nullptr; other = other->next_live) {
    for (const auto& worker : other->workers) {
      for (unsigned turn = 0; worker->telling.load(std::memory_order_acquire);) back_off(turn++);
    }
  }
  for (unsigned turn = 0; outside_tellers.load(std::memory_order_acquire) != 0;) back_off(turn++);
}

constexpr std::uint32_t kFewestSlots = 512;
constexpr unsigned kMostWorkers = 4096;
constexpr std::size_t kSmallestStack = std::size_t{8} * 1024;
constexpr std::size_t kLargestStack = std::size_t{1} << 30U;

bool in_range(const Config& config) {
  return config.workers <= kMostWorkers && config.tasks_per_worker >= kFewestSlots &&
         config.tasks_per_worker <= kMaxSlots && config.stack_bytes >= kSmallestStack &&
         config.stack_bytes <= kLargestStack && config.spin.count() >= 0 && config.name != nullptr;
}

// Returns the bytes to map for a stack. With inline joins, one stack holds a task and the tasks
// that it joins, each with at least Config::stack_bytes (Worker::has_room()).
std::size_t mapped_stack(const Config& config) {
  return config.inline_joins ? 4 * config.stack_bytes : config.stack_bytes;
}

}  // namespace

std::atomic<std::uint32_t> outside_tellers{0};

RecordMemory::RecordMemory(std::uint32_t slots) : bytes_(slots * sizeof(TaskRecord)) {
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) records_ = static_cast<TaskRecord*>(memory);
}

RecordMemory::~RecordMemory() {
  if (records_ != nullptr) ::munmap(records_, bytes_);
}

SchedulerCore::SchedulerCore(const Config& wanted, std::uint32_t workers_wanted)
    : config(wanted),
      count(workers_wanted),
      shape{(wanted.tasks_per_worker + kWordBits - 1) / kWordBits * kWordBits},
      cores(cores_of_process()),
      stealing(wanted.steal && workers_wanted > 1),
      spin_ticks(ticks_from_ns(1e3 * static_cast<double>(wanted.spin.count()))),
      patience_ticks(ticks_from_ns(kPatienceNs)),
      depot(mapped_stack(wanted), wanted.guard_pages) {
  for (std::uint32_t i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>(*this, i));
  std::vector<DebugWorker> listed;
  for (const auto& worker : workers) listed.push_back(worker->debug());
  debug.emplace(std::move(listed), shape.slots);
}

SchedulerCore::~SchedulerCore() { stop(); }

Status SchedulerCore::launch() {
  for (const auto& worker : workers) {
    if (!worker->ok()) return {Code::full};
  }
  for (const auto& worker : workers) {
    std::snprintf(worker->name, sizeof worker->name, "%.9s-%u", config.name, worker->id);
    worker->thread = std::thread([&worker = *worker] { worker.live(); });
    ::pthread_setname_np(worker->thread.native_handle(), worker->name);
    if (config.bind) bind_to_core(worker->thread, worker->id);
  }
  return {};
}

void SchedulerCore::stop() {
  stopping.store(true, std::memory_order_seq_cst);
  for (const auto& worker : workers) {
    // A worker whose thread did not start cannot add itself to `done`, for which the other workers
    // wait in all_done().
    if (!worker->thread.joinable()) done.fetch_add(1, std::memory_order_seq_cst);
  }
  // Wakes every worker: a worker ends only when all workers have found no task at the same time
  // (all_done()).
  for (const auto& worker : workers) worker->bell.ring(watch);
  for (const auto& worker : workers) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

bool SchedulerCore::runs_a_child_here() const {
  if (!ran_here.load(std::memory_order_relaxed)) [[likely]]
    return false;
  std::uint64_t running = 0;
  for (const auto& worker : workers)
    running += worker->counts.here_begun.get() - worker->counts.here_ended.get();
  return running != 0;
}

std::uint64_t SchedulerCore::abandoned() const {
  std::uint64_t blocked = 0;
  for (const auto& worker : workers) blocked += worker->count_blocked();
  return blocked;
}

void SchedulerCore::ring_a_sleeper(std::uint32_t from) {
  for (std::uint32_t i = 1; i <= count; ++i) {
    if (workers[(from + i) % count]->bell.ring_sleeper(watch)) return;
  }
}

DebugWorker Worker::debug() const { return {name, &current, slots_.get()}; }

// Returns the number of tasks of this worker that still wait for a signal. Call after the threads
// of all workers have ended.
std::uint64_t Worker::count_blocked() const {
  std::uint64_t blocked = 0;
  for (std::uint32_t slot = 0; slot < core.shape.slots; ++slot) {
    const TaskRecord* record = slots_[slot].load(std::memory_order_relaxed);
    if (record != nullptr && record->state.phase() == Phase::blocked) ++blocked;
  }
  return blocked;
}

// Tells the sanitizers where the stack of the calling worker's thread lies (its *root*), which runs
// while the worker has no task.
void Worker::adopt_thread_stack(SanitizerFibre& fibre) {
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
    ::pthread_attr_getstack(&attributes, &low, &bytes);
    ::pthread_attr_destroy(&attributes);
  }
  fibre.adopt(static_cast<std::byte*>(low), bytes);
}

// --- the functions behind manyhands/ult/scheduler.hpp ---------------------------------------

Result<SchedulerCore*> start(const Config& config) noexcept {
  if (!in_range(config)) return Status{Code::misuse};
  const unsigned count = config.workers == 0 ? cores_of_process() : config.workers;
  RealAtomics::prepare_fences();
  try {
    auto core = std::make_unique<SchedulerCore>(config, count);
    if (const Status status = core->launch(); !status) return status;
    enlist(core.get());
    return core.release();
  } catch (const std::bad_alloc&) {
    return Status{Code::full};
  } catch (const std::system_error& error) {
    return from_errno(error.code().value());
  }
}

void finish(SchedulerCore* core) noexcept {
  // In a task of this scheduler, which has called exit(), stop() would wait for the task's own
  // worker. The workers end with the process instead.
  const Worker* here = this_thread_worker();
  if (here != nullptr && &here->core == core) return;
  core->stop();
  if (const std::uint64_t left = core->abandoned(); left != 0) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "scheduler %s ended while %" PRIu64 " of its tasks still waited for a signal",
                  core->config.name, left);
    print_line(text);
  }
  await_tellers(core);
  delete core;
}

void share_cores(unsigned own) noexcept {
  cores_of_share.store(std::max(own, 1U), std::memory_order_relaxed);
}

unsigned workers(const SchedulerCore* core) noexcept { return core->count; }

const char* worker_name(const SchedulerCore* core, unsigned worker) noexcept {
  return core->workers[worker]->name;
}

Counters counters(const SchedulerCore* core, unsigned worker) noexcept {
  const WorkerCounts& c = core->workers[worker]->counts;
  return {.spawned = c.spawned.get(),
          .finished = c.finished.get(),
          .inlined = c.inlined.get(),
          .switches = c.switches.get(),
          .stolen = c.stolen.get(),
          .migrated = c.migrated.get(),
          .refused = c.refused.get(),
          .slept = c.slept.get(),
          .parked = c.parked.get(),
          .stacks = core->depot.mapped(),
          .unguarded = core->depot.unguarded()};
}

}  // namespace mh::ult::detail
