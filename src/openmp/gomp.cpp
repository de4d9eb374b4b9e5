// SPDX-License-Identifier: BSD-3-Clause
// The entry points of GCC's OpenMP run time, libgomp, which gfortran uses too.
//
// A call that belongs to a region of ours is answered here, any other goes on to the run time.
#include "openmp/gomp.hpp"

#include <string>
#include <utility>
#include <vector>

#include "openmp/encounter.hpp"
#include "openmp/real.hpp"
#include "openmp/schedule.hpp"

namespace mh::openmp {

Real real;

namespace {

void run_by_team(Body body, void* data, unsigned threads, const void* flags) {
  real.parallel(body, data, threads, *static_cast<const unsigned*>(flags));
}

void parallel(Body body, void* data, unsigned threads, unsigned flags) {
  const Encounter met{.code = reinterpret_cast<const void*>(body),
                      .body = body,
                      .data = data,
                      .threads = threads,
                      .run_by_team = run_by_team,
                      .how = &flags};
  const Outcome outcome = run_shared(met);
  if (outcome.done) return;
  const Nested nested(outcome);
  real.parallel(body, data, nested.threads(threads), flags);
}

// ---- Loops --------------------------------------------------------------------------------------

Loop loop_of(long start, long bound, long step) {
  const auto from = static_cast<std::uint64_t>(start);
  const auto to = static_cast<std::uint64_t>(bound);
  Loop loop{.start = from, .step = static_cast<std::uint64_t>(step), .bound = to};
  if (step > 0 && start < bound) loop.count = indices_over(to - from - 1, loop.step);
  if (step < 0 && start > bound) loop.count = indices_over(from - to - 1, -loop.step);
  return loop;
}

Loop loop_of(bool up, Ull start, Ull bound, Ull step) {
  Loop loop{.start = start, .step = step, .bound = bound};
  if (up && start < bound) loop.count = indices_over(bound - start - 1, step);
  if (!up && start > bound) loop.count = indices_over(start - bound - 1, -loop.step);
  return loop;
}

template <class Index>
bool give(const Loop& loop, const Range& range, Index* first, Index* end) {
  if (range.empty()) return false;
  const std::uint64_t start = loop.start + range.first * loop.step;
  const std::uint64_t bound = loop.start + range.end * loop.step;
  *first = static_cast<Index>(start);
  // The bound itself after the last one: by it the program knows that it has done that.
  *end = static_cast<Index>(range.end == loop.count ? loop.bound : bound);
  return true;
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

bool begin(Kind kind, const Loop& loop, long chunk) {
  return current != nullptr && begin_shared(loop, cut_of(kind, chunk), in_order(kind));
}

template <class Index>
bool next_chunk(Index* first, Index* end) {
  Region& region = *shared_region();
  const Range range = region.next(*current);
  return give(region.loop(), range, first, end);
}

constexpr std::size_t at(Kind kind) { return static_cast<std::size_t>(kind); }

template <Kind kind>
bool start(long from, long bound, long step, long chunk, long* first, long* end) {
  if (begin(kind, loop_of(from, bound, step), chunk)) return next_chunk(first, end);
  return !is_helper() && real.loops[at(kind)].start(from, bound, step, chunk, first, end);
}

template <Kind kind>
bool start_runtime(long from, long bound, long step, long* first, long* end) {
  if (begin(kind, loop_of(from, bound, step), 0)) return next_chunk(first, end);
  return !is_helper() && real.loops[at(kind)].start_runtime(from, bound, step, first, end);
}

template <Kind kind>
bool start_ull(bool up, Ull from, Ull bound, Ull step, Ull chunk, Ull* first, Ull* end) {
  if (begin(kind, loop_of(up, from, bound, step), static_cast<long>(chunk))) {
    return next_chunk(first, end);
  }
  return !is_helper() && real.loops[at(kind)].start_ull(up, from, bound, step, chunk, first, end);
}

template <Kind kind>
bool start_runtime_ull(bool up, Ull from, Ull bound, Ull step, Ull* first, Ull* end) {
  if (begin(kind, loop_of(up, from, bound, step), 0)) return next_chunk(first, end);
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

// A region that is a loop and nothing else is shared the first time it is met.
Outcome run_combined(Kind kind, Body body, void* data, unsigned threads, const Loop& loop,
                     long chunk, unsigned flags) {
  const Encounter met{.code = reinterpret_cast<const void*>(body),
                      .body = body,
                      .data = data,
                      .threads = threads,
                      .run_by_team = run_by_team,
                      .how = &flags};
  return run_shared(met, loop, cut_of(kind, chunk), in_order(kind));
}

template <Kind kind>
void parallel_loop(Body body, void* data, unsigned threads, long from, long bound, long step,
                   long chunk, unsigned flags) {
  const Outcome outcome =
      run_combined(kind, body, data, threads, loop_of(from, bound, step), chunk, flags);
  if (outcome.done) return;
  const Nested nested(outcome);
  real.loops[at(kind)].parallel(body, data, nested.threads(threads), from, bound, step, chunk,
                                flags);
}

template <Kind kind>
void parallel_loop_runtime(Body body, void* data, unsigned threads, long from, long bound,
                           long step, unsigned flags) {
  const Outcome outcome =
      run_combined(kind, body, data, threads, loop_of(from, bound, step), 0, flags);
  if (outcome.done) return;
  const Nested nested(outcome);
  real.loops[at(kind)].parallel_runtime(body, data, nested.threads(threads), from, bound, step,
                                        flags);
}

void loop_end_nowait() {
  if (!in_shared_loop() && !is_helper()) real.loop_end_nowait();
}

// ---- What else a region may do ------------------------------------------------------------------
//
// Each of these keeps a region from being shared. For those that have no function here, see
// calls.hpp. Where a region is shared already a helper gets nothing of them, and waits with the
// team where that waits.

void barrier() {
  note(Obstacle::barrier);
  meet_team(real.barrier);
}

void loop_end() {
  if (in_shared_loop() || is_helper()) return barrier();
  note(Obstacle::barrier);
  meet_team(real.loop_end);
}

void sections_end() {
  note(Obstacle::single);
  meet_team(real.sections_end);
}

void* single_copy_start() {
  note(Obstacle::single);
  return is_helper() ? shared_region()->await_copy() : real.single_copy_start();
}

void single_copy_end(void* data) {
  if (in_region()) shared_region()->give_copy(data);
  real.single_copy_end(data);
}

void parallel_loop_static(Body body, void* data, unsigned threads, long from, long bound, long step,
                          long chunk, unsigned flags) {
  const Nested nested({.done = false});
  real.parallel_loop_static(body, data, nested.threads(threads), from, bound, step, chunk, flags);
}

void parallel_sections(Body body, void* data, unsigned threads, unsigned count, unsigned flags) {
  const Nested nested({.done = false});
  real.parallel_sections(body, data, nested.threads(threads), count, flags);
}

unsigned parallel_reductions(Body body, void* data, unsigned threads, unsigned flags) {
  const Nested nested({.done = false});
  return real.parallel_reductions(body, data, nested.threads(threads), flags);
}

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

void add_gomp(std::vector<Binding>& table) {
  add(table, "GOMP_parallel", parallel, real.parallel);
  [&]<std::size_t... kind>(std::index_sequence<kind...>) {
    (add_loop<static_cast<Kind>(kind)>(table), ...);
  }
  (std::make_index_sequence<kKinds>());
  add(table, "GOMP_loop_end", loop_end, real.loop_end);
  add(table, "GOMP_loop_end_nowait", loop_end_nowait, real.loop_end_nowait);
  add(table, "GOMP_barrier", barrier, real.barrier);
  add(table, "GOMP_sections_end", sections_end, real.sections_end);
  add(table, "GOMP_single_copy_start", single_copy_start, real.single_copy_start);
  add(table, "GOMP_single_copy_end", single_copy_end, real.single_copy_end);
  add(table, "GOMP_parallel_loop_static", parallel_loop_static, real.parallel_loop_static);
  add(table, "GOMP_parallel_sections", parallel_sections, real.parallel_sections);
  add(table, "GOMP_parallel_reductions", parallel_reductions, real.parallel_reductions);
}

}  // namespace mh::openmp
