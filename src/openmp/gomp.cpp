// SPDX-License-Identifier: BSD-3-Clause
// The entry points of GCC's OpenMP run time, libgomp, which gfortran uses too.
//
// A call that belongs to a region of ours (`current`) is answered here, any other goes on to the
// run time. A region is shared if it is a loop and nothing else (the GOMP_parallel_loop_* calls), if
// its directive was marked (marker.hpp), or if it was seen to be of that kind when it was run the
// first time.
#include "openmp/gomp.hpp"

#include <string>
#include <utility>
#include <vector>

#include "openmp/real.hpp"
#include "openmp/region.hpp"
#include "openmp/sharing.hpp"

namespace mh::openmp {

Real real;

namespace {

// Takes part in a shared region, as owner or as helper.
bool in_region() { return current != nullptr && current->role != Participant::Role::watched; }
bool is_helper() { return current != nullptr && current->role == Participant::Role::helper; }

void note(Obstacle what) {
  if (current != nullptr) current->meets(what);
}

// ---- Regions ------------------------------------------------------------------------------------

// The region as the run time runs it, watched on this thread.
void watch(Site& site, Body body, void* data, unsigned threads, unsigned flags) {
  Participant me{.role = Participant::Role::watched, .site = &site};
  current = &me;
  real.parallel(body, data, threads, flags);
  current = nullptr;
  if (me.loops == 0) me.meets(Obstacle::no_loop);
  if (me.loops > 1) me.meets(Obstacle::several_loops);
  decide(site, me.obstacle);
}

void run_own_part(void* region) {
  auto& shared = *static_cast<Region*>(region);
  Participant me = shared.member(static_cast<std::uint32_t>(real.thread_num()));
  current = &me;
  shared.run_body();
  current = nullptr;
  if (me.number == 0) shared.account(me);
}

// The owner's side of a shared region: this thread, and its team if it has one.
void run_shared(Region& region, unsigned threads, unsigned flags) {
  if (threads > 1) {
    real.parallel(run_own_part, &region, threads, flags);
  } else {
    run_own_part(&region);
  }
  region.leave();
}

unsigned own_threads(unsigned wanted) {
  if (wanted != 0) return wanted;
  const int most = real.max_threads();
  return most > 1 ? static_cast<unsigned>(most) : 1;
}

// The site of a region that may be shared if it is of the kind; null for one that the run time is to
// run as without us: inside another region, or of a team of one that was asked for (num_threads(1),
// a false if clause).
Site* candidate(Body body, unsigned threads) {
  if (shared_region() == nullptr || threads == 1 || real.level() != 0) return nullptr;
  Site* site = sites.find(reinterpret_cast<const void*>(body));
  const bool excluded =
      site != nullptr && site->state.load(std::memory_order_relaxed) == Site::State::excluded;
  return excluded ? nullptr : site;
}

void run_nested(Body body, void* data, unsigned threads, unsigned flags) {
  note(Obstacle::nested);
  const bool alone = in_region();
  const Outside outside;
  real.parallel(body, data, alone ? 1 : threads, flags);
}

void parallel(Body body, void* data, unsigned threads, unsigned flags) {
  if (current != nullptr) return run_nested(body, data, threads, flags);
  Site* site = candidate(body, threads);
  if (site == nullptr) return real.parallel(body, data, threads, flags);
  if (site->state.load(std::memory_order_relaxed) == Site::State::unseen) {
    return watch(*site, body, data, threads, flags);
  }
  Region& region = *shared_region();
  const unsigned own = own_threads(threads);
  if (!region.enter(*site, body, data, own)) return real.parallel(body, data, threads, flags);
  run_shared(region, own, flags);
}

// ---- Loops --------------------------------------------------------------------------------------

// Steps from one index to another, both included.
std::uint64_t steps(std::uint64_t distance, std::uint64_t step) { return (distance - 1) / step + 1; }

Loop loop_of(long start, long bound, long step) {
  const auto from = static_cast<std::uint64_t>(start);
  const auto to = static_cast<std::uint64_t>(bound);
  Loop loop{.start = from, .step = static_cast<std::uint64_t>(step), .bound = to};
  if (step > 0 && start < bound) loop.count = steps(to - from, loop.step);
  if (step < 0 && start > bound) loop.count = steps(from - to, -loop.step);
  return loop;
}

Loop loop_of(bool up, Ull start, Ull bound, Ull step) {
  Loop loop{.start = start, .step = step, .bound = bound};
  if (up && start < bound) loop.count = steps(bound - start, step);
  if (!up && start > bound) loop.count = steps(start - bound, -loop.step);
  return loop;
}

template <class Index>
bool give(const Loop& loop, const Range& range, Index* first, Index* end) {
  if (range.empty()) return false;
  *first = static_cast<Index>(loop.start + range.first * loop.step);
  // The bound itself after the last one: by it the program knows that it has done that.
  *end = static_cast<Index>(range.end == loop.count ? loop.bound
                                                    : loop.start + range.end * loop.step);
  return true;
}

// The schedule that schedule(runtime) stands for just now.
Cut cut_at_run_time() {
  constexpr int kDynamic = 2;  // omp_sched_t
  constexpr int kGuided = 3;
  constexpr int kModifiers = static_cast<int>(0x80000000U);  // omp_sched_monotonic
  int schedule = 0;
  int chunk = 0;
  real.get_schedule(&schedule, &chunk);
  schedule &= ~kModifiers;
  const std::uint64_t size = chunk > 0 ? static_cast<std::uint64_t>(chunk) : 1;
  if (schedule == kDynamic) return {.schedule = Schedule::dynamic, .chunk = size};
  if (schedule == kGuided) return {.schedule = Schedule::guided, .chunk = size};
  return {};
}

// What a schedule means here; `unspecified`: chunks are fixed, which cannot be shared.
Cut cut_of(Kind kind, long chunk) {
  if (!has_chunk(kind)) return cut_at_run_time();
  const bool guided = kind == Kind::guided || kind == Kind::nonmonotonic_guided;
  return {.schedule = guided ? Schedule::guided : Schedule::dynamic,
          .chunk = chunk > 0 ? static_cast<std::uint64_t>(chunk) : 1};
}

// schedule(monotonic: ...), and what compilers turn into it for their own needs.
bool in_order(Kind kind) {
  return kind == Kind::dynamic || kind == Kind::guided || kind == Kind::runtime;
}

// This thread begins a loop. True if it is the shared one of its region, which then is open.
bool begin_shared(Kind kind, const Loop& loop, long chunk) {
  if (current == nullptr) return false;
  ++current->loops;
  if (current->role == Participant::Role::helper) return current->loops == 1;
  const Cut own = cut_of(kind, chunk);
  if (own.schedule == Schedule::unspecified) note(Obstacle::no_loop);
  if (!in_region() || current->loops != 1) return false;
  shared_region()->open(loop, own, {}, in_order(kind));
  return true;
}

template <class Index>
bool next_chunk(Index* first, Index* end) {
  Region& region = *shared_region();
  return give(region.loop(), region.next(*current), first, end);
}

// Whether the loop this thread is in is the shared one. Further loops of a region that was not seen
// to have them are the owner's team's: a helper gets nothing of them.
bool in_shared_loop() { return in_region() && current->loops == 1; }

constexpr std::size_t at(Kind kind) { return static_cast<std::size_t>(kind); }

template <Kind kind>
bool start(long from, long bound, long step, long chunk, long* first, long* end) {
  if (begin_shared(kind, loop_of(from, bound, step), chunk)) return next_chunk(first, end);
  return !is_helper() && real.loops[at(kind)].start(from, bound, step, chunk, first, end);
}

template <Kind kind>
bool start_runtime(long from, long bound, long step, long* first, long* end) {
  if (begin_shared(kind, loop_of(from, bound, step), 0)) return next_chunk(first, end);
  return !is_helper() && real.loops[at(kind)].start_runtime(from, bound, step, first, end);
}

template <Kind kind>
bool start_ull(bool up, Ull from, Ull bound, Ull step, Ull chunk, Ull* first, Ull* end) {
  if (begin_shared(kind, loop_of(up, from, bound, step), static_cast<long>(chunk))) {
    return next_chunk(first, end);
  }
  return !is_helper() && real.loops[at(kind)].start_ull(up, from, bound, step, chunk, first, end);
}

template <Kind kind>
bool start_runtime_ull(bool up, Ull from, Ull bound, Ull step, Ull* first, Ull* end) {
  if (begin_shared(kind, loop_of(up, from, bound, step), 0)) return next_chunk(first, end);
  return !is_helper() && real.loops[at(kind)].start_runtime_ull(up, from, bound, step, first, end);
}

template <Kind kind>
bool next(long* first, long* end) {
  if (in_shared_loop()) return next_chunk(first, end);
  return !is_helper() && real.loops[at(kind)].next(first, end);
}

template <Kind kind>
bool next_ull(Ull* first, Ull* end) {
  if (in_shared_loop()) return next_chunk(first, end);
  return !is_helper() && real.loops[at(kind)].next_ull(first, end);
}

// A region that is a loop and nothing else is shared the first time it is met. False: it is the run
// time's to run.
bool run_combined(Kind kind, Body body, void* data, unsigned threads, const Loop& loop, long chunk,
                  unsigned flags) {
  Site* site = current == nullptr ? candidate(body, threads) : nullptr;
  if (site == nullptr) return false;
  const Cut own_cut = cut_of(kind, chunk);
  const unsigned own = own_threads(threads);
  Region& region = *shared_region();
  if (own_cut.schedule == Schedule::unspecified || !region.enter(*site, body, data, own)) {
    return false;
  }
  region.open(loop, own_cut, {}, in_order(kind));
  region.begins_in_loop();
  run_shared(region, own, flags);
  return true;
}

template <Kind kind>
void parallel_loop(Body body, void* data, unsigned threads, long from, long bound, long step,
                   long chunk, unsigned flags) {
  if (run_combined(kind, body, data, threads, loop_of(from, bound, step), chunk, flags)) return;
  note(Obstacle::nested);
  const unsigned own = in_region() ? 1 : threads;
  const Outside outside;
  real.loops[at(kind)].parallel(body, data, own, from, bound, step, chunk, flags);
}

template <Kind kind>
void parallel_loop_runtime(Body body, void* data, unsigned threads, long from, long bound,
                           long step, unsigned flags) {
  if (run_combined(kind, body, data, threads, loop_of(from, bound, step), 0, flags)) return;
  note(Obstacle::nested);
  const unsigned own = in_region() ? 1 : threads;
  const Outside outside;
  real.loops[at(kind)].parallel_runtime(body, data, own, from, bound, step, flags);
}

void loop_end_nowait() {
  if (!in_shared_loop() && !is_helper()) real.loop_end_nowait();
}

// With a barrier: what comes after may need all iterations.
void loop_end() {
  if (is_helper()) return;
  if (!in_shared_loop()) {
    note(Obstacle::barrier);
    return real.loop_end();
  }
  shared_region()->await_all(*current);
  real.barrier();
}

// ---- What else a region may do ------------------------------------------------------------------
//
// Seen while a region is watched, each of these excludes it. In a shared region a helper stays out
// of them: what is done once is the owner's.

void barrier() {
  note(Obstacle::barrier);
  if (!is_helper()) real.barrier();
}

bool single_start() {
  note(Obstacle::single);
  return !is_helper() && real.single_start();
}

void* single_copy_start() {
  note(Obstacle::single);
  return real.single_copy_start();
}

unsigned sections_start(unsigned count) {
  note(Obstacle::single);
  return is_helper() ? 0 : real.sections_start(count);
}

unsigned sections_next() { return is_helper() ? 0 : real.sections_next(); }

void ordered_start() {
  note(Obstacle::single);
  real.ordered_start();
}

void task(Body body, void* data, void (*copy)(void*, void*), long bytes, long alignment, bool now,
          unsigned flags, void** depend, int priority, void* detach) {
  note(Obstacle::tasks);
  real.task(body, data, copy, bytes, alignment, now, flags, depend, priority, detach);
}

void taskwait() {
  note(Obstacle::tasks);
  real.taskwait();
}

int thread_num() {
  note(Obstacle::thread_number);
  return in_region() ? static_cast<int>(current->number) : real.thread_num();
}

int num_threads() {
  note(Obstacle::thread_number);
  return in_region() ? static_cast<int>(shared_region()->team()) : real.num_threads();
}

int in_parallel() { return in_region() ? 1 : real.in_parallel(); }

// ---- The table ----------------------------------------------------------------------------------

constexpr const char* kKindNames[kKinds] = {
    "dynamic",
    "guided",
    "nonmonotonic_dynamic",
    "nonmonotonic_guided",
    "runtime",
    "nonmonotonic_runtime",
    "maybe_nonmonotonic_runtime",
};

template <class Function>
void add(std::vector<Binding>& table, const std::string& name, Function* ours, Function*& place) {
  table.push_back({name, reinterpret_cast<void*>(ours), reinterpret_cast<void**>(&place)});
}

template <class Function>
void ask(std::vector<Binding>& table, const std::string& name, Function*& place) {
  table.push_back({name, nullptr, reinterpret_cast<void**>(&place)});
}

template <Kind kind>
void add_loop(std::vector<Binding>& table) {
  const std::string name = kKindNames[at(kind)];
  LoopCalls& calls = real.loops[at(kind)];
  if constexpr (has_chunk(kind)) {
    add(table, "GOMP_loop_" + name + "_start", start<kind>, calls.start);
    add(table, "GOMP_loop_ull_" + name + "_start", start_ull<kind>, calls.start_ull);
    add(table, "GOMP_parallel_loop_" + name, parallel_loop<kind>, calls.parallel);
  } else {
    add(table, "GOMP_loop_" + name + "_start", start_runtime<kind>, calls.start_runtime);
    add(table, "GOMP_loop_ull_" + name + "_start", start_runtime_ull<kind>,
        calls.start_runtime_ull);
    add(table, "GOMP_parallel_loop_" + name, parallel_loop_runtime<kind>, calls.parallel_runtime);
  }
  add(table, "GOMP_loop_" + name + "_next", next<kind>, calls.next);
  add(table, "GOMP_loop_ull_" + name + "_next", next_ull<kind>, calls.next_ull);
}

}  // namespace

std::vector<Binding> gomp_bindings() {
  std::vector<Binding> table;
  add(table, "GOMP_parallel", parallel, real.parallel);
  [&]<std::size_t... kind>(std::index_sequence<kind...>) {
    (add_loop<static_cast<Kind>(kind)>(table), ...);
  }(std::make_index_sequence<kKinds>());
  add(table, "GOMP_loop_end", loop_end, real.loop_end);
  add(table, "GOMP_loop_end_nowait", loop_end_nowait, real.loop_end_nowait);
  add(table, "GOMP_barrier", barrier, real.barrier);
  add(table, "GOMP_single_start", single_start, real.single_start);
  add(table, "GOMP_single_copy_start", single_copy_start, real.single_copy_start);
  add(table, "GOMP_sections_start", sections_start, real.sections_start);
  add(table, "GOMP_sections_next", sections_next, real.sections_next);
  add(table, "GOMP_ordered_start", ordered_start, real.ordered_start);
  add(table, "GOMP_task", task, real.task);
  add(table, "GOMP_taskwait", taskwait, real.taskwait);
  // Fortran's names are further names of the same functions.
  for (const char* ending : {"", "_"}) {
    add(table, std::string("omp_get_thread_num") + ending, thread_num, real.thread_num);
    add(table, std::string("omp_get_num_threads") + ending, num_threads, real.num_threads);
    add(table, std::string("omp_in_parallel") + ending, in_parallel, real.in_parallel);
  }
  ask(table, "omp_get_max_threads", real.max_threads);
  ask(table, "omp_get_level", real.level);
  ask(table, "omp_get_schedule", real.get_schedule);
  return table;
}

}  // namespace mh::openmp
